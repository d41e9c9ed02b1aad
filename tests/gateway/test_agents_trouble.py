"""What agents are told when something goes wrong, and what becomes of their jobs when they leave."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import openai
import pytest

from buffer.job import End, Failure, Finish, Usage
from buffer.setting_values import ApiKey
from gateway.delivery import Timing
from tests.gateway.agents import PATHS, body, clients
from tests.gateway.rig import MODEL, PROMPT, Wire, rig, until
from tests.gateway.test_end_to_end import MODELS, house
from tests.rig.script import CUT, HOLD, Status


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("script", [[HOLD], ["Hel", HOLD]])
async def test_the_engine_is_left_when_the_client_leaves(path: str, stream: bool, script: list[Any]) -> None:
    async with house("vllm") as h:
        h.engines["vllm"].script = script
        wire = await Wire.post(h.port, path, body(path, MODELS["vllm"], stream=stream))
        asked = await h.engines["vllm"].received()

        async def left() -> bool:
            return asked.peer_closed_at is not None

        if stream and len(script) > 1:
            await wire.until(b"Hel")
        await wire.leave()
        async with asyncio.timeout(1):
            await until(left)
        await h.quiet()


async def test_an_engine_that_refuses_and_one_that_breaks_off() -> None:
    model = MODELS["vllm"]
    async with house("vllm", max_attempts=1, breaker_failures=100) as h, clients(h.url) as (claude, gpt):
        messages: Any = [{"role": "user", "content": "x"}]
        h.engines["vllm"].script = [Status(400, {"error": {"message": "too long", "code": 400}})]
        for stream in (True, False):
            with pytest.raises(anthropic.BadRequestError) as refused:
                await claude.messages.create(model=model, max_tokens=5, messages=messages, stream=stream)
            assert refused.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]
            with pytest.raises(openai.BadRequestError):
                await gpt.responses.create(model=model, input="x", stream=stream)
        h.engines["vllm"].script = ["Hel", CUT]
        with pytest.raises(anthropic.APIStatusError) as broken:
            async with claude.messages.stream(model=model, max_tokens=5, messages=messages) as told:
                await told.until_done()
        assert broken.value.body["error"]["type"] == "api_error"  # type: ignore[index]
        assert broken.value.body["request_id"]  # type: ignore[index]
        events = [event async for event in await gpt.responses.create(model=model, input="x", stream=True)]
        assert events[-1].type == "response.failed"
        assert events[-1].response.error
        assert events[-1].response.error.code == "server_error"
        with pytest.raises(anthropic.InternalServerError):
            await claude.messages.create(model=model, max_tokens=5, messages=messages)
        with pytest.raises(openai.InternalServerError):
            await gpt.responses.create(model=model, input="x")
        await h.quiet()


async def test_errors_have_the_form_of_the_api_that_was_asked() -> None:
    key = "secret-key-0123456789"
    async with rig(api_keys=[ApiKey(name="k", key=key)]) as r, clients(r.url) as (claude, gpt):
        with pytest.raises(anthropic.AuthenticationError) as refused:
            await claude.messages.create(model=MODEL, max_tokens=5, messages=[{"role": "user", "content": "x"}])
        assert refused.value.body["error"]["type"] == "authentication_error"  # type: ignore[index]
        with pytest.raises(openai.AuthenticationError):
            await gpt.responses.create(model=MODEL, input="x")
        known = claude.with_options(api_key=key)
        with pytest.raises(anthropic.NotFoundError) as missing:
            await known.messages.create(model="nobody", max_tokens=5, messages=[{"role": "user", "content": "x"}])
        assert missing.value.body == {
            "type": "error",
            "error": {"type": "not_found_error", "message": "model: nobody"},
            "request_id": missing.value.request_id,
        }
        with pytest.raises(openai.NotFoundError) as unknown:
            await gpt.with_options(api_key=key).responses.create(model="nobody", input="x")
        assert unknown.value.code == "model_not_found"
        with pytest.raises(anthropic.BadRequestError):
            await known.messages.create(model=MODEL, max_tokens=0, messages=[{"role": "user", "content": "x"}])
        with pytest.raises(openai.BadRequestError) as stored:
            await gpt.with_options(api_key=key).responses.create(model=MODEL, input="x", previous_response_id="resp_1")
        assert stored.value.param == "previous_response_id"
        headers = {"x-api-key": key, "X-Request-Id": "mine-1"}
        for method, path, status in (("GET", "/v1/messages", 405), ("POST", "/v1/messages/batches", 404)):
            got = await r.client.request(method, path, headers=headers)
            assert got.status_code == status
            assert got.json()["type"] == "error"
            assert got.json()["request_id"] == got.headers["request-id"] == "mine-1"
        assert r.metric('requests_total{api="anthropic",lane="none",outcome="client_error"}') == 3
        assert r.metric('requests_total{api="responses",lane="none",outcome="client_error"}') == 3


async def test_a_full_queue_says_when_to_come_again() -> None:
    async with rig(queue_limit=1) as r, asyncio.TaskGroup() as group:
        first = group.create_task(r.client.post(PATHS[0], json=body(PATHS[0])))
        await r.waiting(1)
        for path, kind in ((PATHS[0], "overloaded_error"), (PATHS[1], "server_error")):
            got = await r.client.post(path, json=body(path, stream=True))
            assert got.status_code == 503
            assert got.json()["error"]["type"] == kind
            assert int(got.headers["retry-after"]) >= 1
        await r.hands.answer("hi")
        assert (await first).json()["content"] == [{"type": "text", "text": "hi"}]


async def test_clients_are_kept_while_they_wait_and_told_of_a_failure_after_that() -> None:
    timing = Timing(first_byte_s=0.01, heartbeat_s=0.01)
    async with rig(timing=timing) as r, clients(r.url) as (claude, gpt):
        for path, beat in ((PATHS[0], b'event: ping\ndata: {"type":"ping"}\n\n'), (PATHS[1], b": keep-alive\n\n")):
            wire = await Wire.post(r.port, path, body(path, stream=True), "Connection: close")
            await wire.until(beat)
            await wire.until(beat)
            job = await r.hands.take()
            await r.hands.end(job, End("failed", Failure("no", 503, "queue_timeout")))
            rest = await wire.rest()
            assert (b"overloaded_error" if path == PATHS[0] else b"response.failed") in rest
            assert rest.endswith(b"0\r\n\r\n")

        async def claude_waits() -> str:
            asked: Any = {"model": MODEL, "max_tokens": 5, "messages": PROMPT}
            async with claude.messages.stream(**asked) as stream:
                return await stream.get_final_text()

        async def gpt_waits() -> str:
            async with gpt.responses.stream(model=MODEL, input="x") as stream:
                return (await stream.get_final_response()).output_text

        for waiting in (claude_waits, gpt_waits):
            async with asyncio.TaskGroup() as group:
                told = group.create_task(waiting())
                job = await r.hands.take()
                await asyncio.sleep(0.05)  # some heartbeats
                r.hands.say(job, "hi", Finish("stop"), Usage(1, 1))
                await r.hands.end(job)
            assert told.result() == "hi"
