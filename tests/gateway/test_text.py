"""``POST /api/generate`` and ``POST /v1/completions`` over a real server, a worker in the test's hands behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from buffer.job import Content, End, Failure, Finish, Lane, Reasoning, Usage
from buffer.records import Held
from gateway.delivery import Timing
from tests.gateway.rig import MODEL, PLAIN, Rig, Wire, chunks, lines, rig, until

GENERATE, COMPLETIONS = "/api/generate", "/v1/completions"
BOTH = pytest.mark.parametrize("path", [GENERATE, COMPLETIONS])


def body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": "Once", **fields}


async def post(r: Rig, path: str, sent: object, *answer: str, **headers: str) -> httpx.Response:
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(r.client.post(path, json=sent, headers=headers))
        await r.hands.answer(*answer)
    return sending.result()


async def nobody_waits(r: Rig) -> None:
    async def nobody() -> bool:
        return not any(depth.waiting for depth in (await r.lanes.depths()).values())

    await until(nobody)


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream", "application/json"])
@pytest.mark.parametrize(("stream", "streams"), [({}, True), ({"stream": None}, True), ({"stream": False}, False)])
async def test_generate_streams_unless_told_not_to(accept: str, stream: dict[str, Any], streams: bool) -> None:
    async with rig() as r:
        got = await post(r, GENERATE, body(**stream), "Hel", "lo", Accept=accept)
        assert got.status_code == 200
        assert got.headers["content-type"] == ("application/x-ndjson" if streams else "application/json; charset=utf-8")
        *pieces, last = lines(got.text)
        assert len(pieces) == (2 if streams else 0)
        assert "".join(line["response"] for line in [*pieces, last]) == "Hello"
        assert [line["done"] for line in [*pieces, last]] == [*(False for _ in pieces), True]
        assert (last["prompt_eval_count"], last["eval_count"], last["context"]) == (7, 2, [])
        assert got.headers["x-doublebuffer-lane"] == "fast"
        assert got.headers["x-doublebuffer-backend"] == "engine"
        assert r.metric('requests_total{api="ollama",lane="fast",outcome="ok"}') == 1
        assert r.metric('tokens_total{direction="completion"}') == 2


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
@pytest.mark.parametrize("stream", [{}, {"stream": False}, {"stream": True}])
async def test_completions_stream_only_if_told_to(accept: str, stream: dict[str, Any]) -> None:
    async with rig() as r:
        got = await post(r, COMPLETIONS, body(**stream), "Hel", "lo", Accept=accept)
        assert got.status_code == 200
        if stream.get("stream"):
            assert got.headers["content-type"] == "text/event-stream"
            found = chunks(got.text)
            assert "".join(chunk["choices"][0]["text"] for chunk in found) == "Hello"
            assert {chunk["id"] for chunk in found} == {f"cmpl-{got.headers['x-doublebuffer-id']}"}
        else:
            assert got.headers["content-type"] == "application/json; charset=utf-8"
            assert got.json()["object"] == "text_completion"
            assert got.json()["choices"][0]["text"] == "Hello"
            assert got.json()["usage"] == {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
        assert r.metric('requests_total{api="openai",lane="fast",outcome="ok"}') == 1


@BOTH
@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", ""])
async def test_curl_without_a_content_type(path: str, content_type: str) -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        wire = await Wire.post(r.port, path, body(stream=False), f"Content-Type: {content_type}", "Connection: close")
        rest = group.create_task(wire.rest())
        await r.hands.answer("hi")
        assert (await rest).startswith(b"HTTP/1.1 200 OK")


@BOTH
@pytest.mark.parametrize("sent", [b'{"model":', b"", b"[]", b'"x"'])
async def test_bodies_that_are_none(path: str, sent: bytes) -> None:
    async with rig() as r:
        got = await r.client.post(path, content=sent)
        assert got.status_code == 400
        assert isinstance(got.json()["error"], str if path == GENERATE else dict)
        assert (await r.lanes.depths())["fast"].waiting == 0


@pytest.mark.parametrize("prompt", [{}, {"prompt": ""}])
@pytest.mark.parametrize("stream", [{}, {"stream": True}, {"stream": False}])
async def test_without_a_prompt_a_model_is_loaded_or_unloaded_at_once(
    prompt: dict[str, str], stream: dict[str, bool]
) -> None:
    async with rig() as r:
        for keep_alive, reason in ((None, "load"), (0, "unload"), ("10m", "load")):
            got = await r.client.post(GENERATE, json={"model": MODEL, "keep_alive": keep_alive, **prompt, **stream})
            assert got.headers["content-type"] == "application/json; charset=utf-8"
            told = got.json()
            assert (told["response"], told["done"], told["done_reason"]) == ("", True, reason)
        await nobody_waits(r)


async def test_refusals_in_their_own_words() -> None:
    async with rig() as r:
        got = await r.client.post(GENERATE, json=body(raw=True, system="s"))
        assert (got.status_code, got.json()) == (
            400,
            {"error": "raw mode does not support template, system, or context"},
        )
        got = await r.client.post(GENERATE, json=body(model="nobody"))
        assert (got.status_code, got.json()) == (404, {"error": "model 'nobody' not found"})
        got = await r.client.post(GENERATE, json=body(model=PLAIN, think=True))
        assert (got.status_code, got.json()) == (400, {"error": f'"{PLAIN}" does not support thinking'})
        got = await r.client.post(COMPLETIONS, json=body(model="nobody"))
        assert (got.status_code, got.json()["error"]["code"]) == (404, "model_not_found")
        got = await r.client.post(COMPLETIONS, json={"model": MODEL})
        assert (got.status_code, got.json()["error"]["param"]) == (400, "prompt")
        assert (await r.client.get(COMPLETIONS)).status_code == 405


async def test_thinking_has_its_own_field_and_lane() -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post(GENERATE, json=body(think=True, stream=False, system="Be brief.")))
        job = await r.hands.take()
        chat = await r.hands.chat(job)
        assert [message.role for message in chat.messages] == ["system", "user"]
        assert (chat.think, chat.prompt) == ("on", None)
        r.hands.say(job, Reasoning("hm"), "yes", Finish("stop"))
        await r.hands.end(job)
        got = await sent
        assert got.headers["x-doublebuffer-lane"] == "thinking"
        assert (got.json()["response"], got.json()["thinking"]) == ("yes", "hm")


@BOTH
async def test_lanes_go_by_the_length_of_the_prompt(path: str) -> None:
    raw = {"raw": True} if path == GENERATE else {}
    async with rig() as r:
        lanes: list[tuple[str, Lane]] = [("x" * 99, "fast"), ("x" * 100, "normal"), ("x" * 2000, "slow")]
        for prompt, lane in lanes:
            got = await post(r, path, body(prompt=prompt, **raw), "x")
            assert got.headers["x-doublebuffer-lane"] == lane
            assert (await r.hands.lanes.depths())[lane].waiting == 0
        assert r.hands.granted[-1].prefill >= 500


async def test_token_ids_count_as_such() -> None:
    async with rig() as r:
        got = await post(r, COMPLETIONS, body(prompt=list(range(3000))), "x")
        assert got.headers["x-doublebuffer-lane"] == "slow"
        assert 3000 <= r.hands.granted[0].prefill < 3100


@pytest.mark.parametrize("stream", [True, False])
async def test_each_of_several_prompts_is_a_job_of_its_own(stream: bool) -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        asked = body(prompt=["a", "b", "c"], n=2, stream=stream, stream_options={"include_usage": True})
        sent = group.create_task(r.client.post(COMPLETIONS, json=asked))
        await r.hands.take(3)
        jobs = {(await r.hands.chat(job)).prompt: job for job in r.hands.granted}
        assert set(jobs) == {"a", "b", "c"}
        for prompt in "cab":  # in another order than they were asked
            job = jobs[prompt]
            assert (await r.hands.chat(job)).n == 2
            for index in (0, 1):
                text = f"{prompt}{index}"
                r.hands.say(job, Content(text, index))
            r.hands.say(job, Finish("stop", 0), Finish("stop", 1), Usage(5, 4, cached=1))
            await r.hands.end(job)
        got = await sent
        if stream:
            found = chunks(got.text)
            texts = [""] * 6
            for chunk in found[:-1]:
                texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
            usage = found[-1]["usage"]
        else:
            texts = [choice["text"] for choice in got.json()["choices"]]
            usage = got.json()["usage"]
        assert texts == ["a0", "a1", "b0", "b1", "c0", "c1"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (15, 12)
        assert usage["prompt_tokens_details"] == {"cached_tokens": 3}
        assert r.metric('requests_total{api="openai",lane="fast",outcome="ok"}') == 1
        assert r.metric('tokens_total{direction="prompt"}') == 15
        assert r.metric('queue_wait_seconds_count{lane="fast"}') == 3


@pytest.mark.parametrize("stream", [True, False])
async def test_one_prompt_that_fails_ends_them_all(stream: bool) -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post(COMPLETIONS, json=body(prompt=["a", "b"], stream=stream)))
        await r.hands.take(2)
        first, second = r.hands.granted
        if stream:
            r.hands.say(second, "well")
        await r.hands.end(first, End("failed", Failure("The engine went away.")))
        got = await sent
        if stream and "well" in got.text:
            assert chunks(got.text)[-1]["error"]["message"] == "The engine went away."
        else:
            assert got.status_code == 502
            assert got.json()["error"]["message"] == "The engine went away."
        await _told_to_stop(r, second.id, second.fence)


async def _told_to_stop(r: Rig, id: str, fence: int) -> None:
    async def told() -> bool:
        (renewed,) = await r.lanes.renew(r.hands.name, [Held(id, fence, r.hands.backend)], 30)
        return renewed.status == "cancel"

    await until(told)


@pytest.mark.parametrize("taken", [0, 1, 3])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_several_prompts(taken: int, stream: bool) -> None:
    async with rig() as r:
        wire = await Wire.post(r.port, COMPLETIONS, body(prompt=["a", "b", "c"], stream=stream))
        if taken:
            await r.hands.take(taken)
        await r.waiting(3 - taken)
        await wire.leave()
        await nobody_waits(r)
        for job in r.hands.granted:
            await _told_to_stop(r, job.id, job.fence)
        await r.counted("openai", "fast", "cancelled")


@BOTH
async def test_a_client_that_leaves_the_queue(path: str) -> None:
    async with rig() as r:
        wire = await Wire.post(r.port, path, body(stream=True))
        await r.waiting(1)
        await wire.leave()
        await nobody_waits(r)
        await r.counted("ollama" if path == GENERATE else "openai", "fast", "cancelled")


async def test_several_prompts_go_in_together_or_not_at_all() -> None:
    async with rig(queue_limit=2) as r:
        got = await r.client.post(COMPLETIONS, json=body(prompt=["a", "b", "c"]))
        assert got.status_code == 503
        assert got.json()["error"]["code"] == "queue_full"
        assert got.headers["retry-after"]
        await nobody_waits(r)


@BOTH
async def test_heartbeats_while_it_waits(path: str) -> None:
    async with rig(timing=Timing(first_byte_s=0.05, heartbeat_s=0.05)) as r:
        wire = await Wire.post(r.port, path, body(stream=True), "Connection: close")
        await wire.until(b'"response":"","done":false' if path == GENERATE else b": keep-alive")
        await r.hands.answer("hi")
        assert b"hi" in await wire.rest()


@pytest.mark.parametrize("path", [GENERATE, COMPLETIONS])
async def test_jobs_that_wait_too_long(path: str) -> None:
    async with rig(queue_timeout_seconds=0.2) as r:
        sent = body(prompt=["a", "b"] if path == COMPLETIONS else "a", stream=False)
        got = await r.client.post(path, json=sent)
        assert got.status_code == 503
        assert got.headers["x-should-retry"] == "false"
        await nobody_waits(r)


async def test_a_broken_stream_of_generate_is_broken_off() -> None:
    async with rig() as r:
        wire = await Wire.post(r.port, GENERATE, body())
        job = await r.hands.take()
        r.hands.say(job, "Hel")
        await wire.until(b"Hel")
        await r.hands.end(job, End("failed", Failure("The engine went away.")))
        rest = await wire.rest()
        assert b'{"error":"The engine went away."}' in rest
        assert not rest.endswith(b"0\r\n\r\n")


async def test_both_are_in_the_documentation() -> None:
    async with rig() as r:
        paths = (await r.client.get("/openapi.json")).json()["paths"]
        assert {GENERATE, COMPLETIONS} <= paths.keys()
