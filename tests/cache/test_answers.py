"""Answers that are kept, over one gateway: in each dialect's form, for whom, and what is not asked of the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import httpx
import pytest

from buffer.access import Command
from buffer.job import Content, Finish, Logprobs, Origin, Usage
from buffer.model_records import ModelRecord
from buffer.scripting import by_sha
from tests.cache.asking import COLD, asked, post, text
from tests.coming_back.rig import DETACH, Gate, Gates, gates
from tests.gateway.rig import PLAIN, PROMPT, Rig, rig, until

CHAT, OLLAMA = "/v1/chat/completions", "/api/chat"
PATHS = ("/v1/chat/completions", "/v1/responses", "/api/chat", "/api/generate")
WORDS = ["one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight ", "nine ", "ten "]


async def fill(g: Gates, path: str = CHAT, *words: str, **more: Any) -> httpx.Response:
    """Asks something new, and has it answered."""
    first = post(g.one, path, **more)
    await g.hands.answer(*(words or WORDS), usage=Usage(7, 10, 3, None, 1_000, 2_000, 3_000))
    return await first


@pytest.mark.parametrize("path", [*PATHS, "/v1/completions"])
@pytest.mark.parametrize("stream", [True, False])
async def test_each_dialect_tells_it_as_if_it_were_new(path: str, stream: bool) -> None:
    async with gates(None, cache=True) as g:
        fresh = await fill(g, path, stream=stream)
        again = await post(g.two, path, stream=stream)
        assert again.headers["x-doublebuffer-cache"] == "hit"
        assert fresh.headers["x-doublebuffer-cache"] == "miss"
        assert again.headers["content-type"] == fresh.headers["content-type"]
        assert again.headers["x-doublebuffer-lane"] == fresh.headers["x-doublebuffer-lane"]
        assert again.headers["x-doublebuffer-id"] != fresh.headers["x-doublebuffer-id"]
        assert again.headers["x-doublebuffer-id"] in again.text or path.startswith("/api/")
        if path != "/v1/completions":
            assert text(path, again) == text(path, fresh) == "".join(WORDS)
        assert len(g.hands.granted) == 1
        other = await post(g.two, path, stream=not stream)
        assert other.headers["x-doublebuffer-cache"] == "hit"
        if path != "/v1/completions":
            assert text(path, other) == "".join(WORDS)
        if stream:
            assert shape(again) == shape(fresh)


def shape(reply: httpx.Response) -> list[Any]:
    """The kinds of a stream's events in their order, each once."""
    rows = [line.removeprefix("data: ") for line in reply.text.splitlines() if line[:1] == "{" or line[:6] == "data: "]
    kinds = [row if row == "[DONE]" else sorted(json.loads(row)) for row in rows]
    return [kind for place, kind in enumerate(kinds) if place == 0 or kind != kinds[place - 1]]


async def test_anthropic_s_clients_too() -> None:
    body = {"model": PLAIN, "max_tokens": 100, "temperature": 0, "messages": PROMPT}
    async with gates(None, cache=True) as g:
        await fill(g, CHAT, max_tokens=100)
        whole = await g.two.client.post("/v1/messages", json=body)
        assert whole.headers["x-doublebuffer-cache"] == "hit"
        assert whole.json()["content"] == [{"type": "text", "text": "".join(WORDS)}]
        assert whole.json()["usage"]["output_tokens"] == 10
        assert whole.json()["stop_reason"] == "end_turn"
        streamed = await g.two.client.post("/v1/messages", json={**body, "stream": True})
        events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: ")]
        kinds = [event["type"] for event in events]
        assert kinds[0] == "message_start"
        assert kinds.count("content_block_delta") > 1
        assert kinds[-2:] == ["message_delta", "message_stop"]
        assert events[0]["message"]["id"] != whole.json()["id"]


async def test_counts_are_the_engine_s_and_times_are_of_now() -> None:
    async with gates(None, cache=True) as g:
        await fill(g)
        kept = (await post(g.one, OLLAMA, stream=False)).json()
        assert (kept["prompt_eval_count"], kept["eval_count"]) == (7, 10)
        assert kept["prompt_eval_duration"] + kept["eval_duration"] <= kept["total_duration"]
        usage = (await post(g.one, CHAT, stream=False)).json()["usage"]
        assert usage["prompt_tokens"] == 7
        assert usage["total_tokens"] == 17
        assert g.one.metric('tokens_total{direction="completion"}') == 10, "engines said so many"
        assert g.one.metric('requests_total{api="openai",lane="fast",outcome="ok"}') == 2


async def test_probabilities_and_the_engine_s_name_come_again() -> None:
    async with gates(None, cache=True) as g:
        first = post(g.one, CHAT, logprobs=True)
        job = await g.hands.take()
        told = '[{"token":"a","logprob":-0.5,"bytes":null,"top_logprobs":[]}]'
        g.hands.say(job, Origin("fp"), "a", Logprobs(told), "b", Logprobs(told), Finish("stop"), Usage(7, 2))
        await g.hands.end(job)
        again = await post(g.two, CHAT, logprobs=True, stream=False)
        assert (await first).status_code == 200
        assert again.headers["x-doublebuffer-cache"] == "hit"
        assert again.json()["system_fingerprint"] == "fp"
        assert again.json()["choices"][0]["logprobs"]["content"] == json.loads(told) * 2


async def test_requests_with_other_ways_to_their_answer_only_fill_the_cache() -> None:
    """An Idempotency-Key stands for one request, and an id to come back with for a job."""
    async with gates(None, cache=True) as g:
        for place, headers in enumerate((DETACH, {"Idempotency-Key": "k"})):
            first = post(g.one, CHAT, seed=place, headers=headers)
            await g.hands.answer("Hello")
            assert (await first).headers["x-doublebuffer-cache"] == "bypass"
            id = (await first).headers["x-doublebuffer-id"]
            assert (await g.one.client.get(f"/v1/requests/{id}")).json()["state"] == "done"
            plain = await post(g.two, CHAT, seed=place)
            assert plain.headers["x-doublebuffer-cache"] == "hit"
        again = post(g.two, CHAT, seed=0, headers=DETACH)
        await g.hands.answer("Hello")
        assert (await again).headers["x-doublebuffer-cache"] == "bypass"


async def test_several_prompts_at_once_are_not_kept() -> None:
    async with gates(None, cache=True) as g:
        for _ in range(2):
            both = post(g.one, "/v1/completions", prompt=["a", "b"], stream=False)
            await g.hands.answer("x")
            await g.hands.answer("y")
            assert (await both).headers["x-doublebuffer-cache"] == "bypass"


async def test_what_a_substitute_says_is_not_kept() -> None:
    async with gates(None, cache=True) as g:
        main = g.hands.state(name="main", up=True)
        await g.hands.show(main)
        await g.hands.show(g.hands.state(fallback_for=["main"]))
        await fill(g)
        again = post(g.two, CHAT)
        await g.hands.answer("Hello")
        assert (await again).headers["x-doublebuffer-cache"] == "miss"


async def test_a_model_s_record_decides_for_that_model() -> None:
    never = [ModelRecord(name=PLAIN, cache=False)]
    async with gates(None, cache=True, models=never) as g:
        for _ in range(2):
            assert (await fill(g)).headers["x-doublebuffer-cache"] == "bypass"
    only = [ModelRecord(name=PLAIN, cache=True)]
    async with gates(None, models=only) as g:
        await fill(g)
        assert (await post(g.two, CHAT)).headers["x-doublebuffer-cache"] == "hit"


async def test_where_a_model_comes_or_goes_it_is_asked_anew() -> None:
    async with gates(None, cache=True) as g:
        await fill(g)
        forgotten = await g.one.client.delete("/v1/cache", params={"model": PLAIN.upper()})
        assert forgotten.json() == {"object": "cache", "forgotten": 1}
        assert (await fill(g)).headers["x-doublebuffer-cache"] == "miss"
        models = [model for model in g.hands.state().models if model.id == PLAIN]
        for model in models:
            model.digest = "another"
        await g.hands.show(g.hands.state(models=models))
        for gate in g.gates:
            await until(partial(_tells, gate, "another"))
        assert (await fill(g)).headers["x-doublebuffer-cache"] == "miss"


async def _tells(gate: Gate, digest: str) -> bool:
    """Whether a gateway has heard that a model is another one now."""
    tags = (await gate.client.get("/api/tags")).json()["models"]
    return any(tag["digest"] == digest for tag in tags)


async def test_only_an_admin_s_key_has_answers_forgotten() -> None:
    keys = [
        {"name": "ann", "key": "a", "admin": True},
        {"name": "bob", "key": "b"},
    ]
    async with rig(cache=True, api_keys=keys) as r:
        for key, status in (("a", 200), ("b", 403), ("c", 401)):
            reply = await r.client.delete("/v1/cache", headers={"authorization": f"Bearer {key}"})
            assert reply.status_code == status


async def commands(r: Rig, monkeypatch: pytest.MonkeyPatch, body: dict[str, Any]) -> list[str]:
    """The scripts that a request has the store run before its job is submitted."""
    seen: list[str] = []
    pipeline = r.store.pipeline

    async def counted(commands: Sequence[Command], **more: Any) -> list[Any]:
        seen.extend(by_sha()[command[1]].name for command in commands if command[0] == "EVALSHA")
        return await pipeline(commands, **more)

    await r.client.get("/v1/models")
    monkeypatch.setattr(r.store, "pipeline", counted)
    asking = asyncio.create_task(r.client.post(CHAT, json=body))
    job = await r.hands.take()
    before = seen[: seen.index("submit") + 1]
    r.hands.say(job, "Hello", Finish("stop"), Usage(7, 1))
    await r.hands.end(job)
    assert (await asking).status_code == 200
    monkeypatch.undo()
    return [name for name in before if name in {"ask", "keep", "claim", "place", "submit"}]


async def test_one_look_at_the_store_where_there_may_be_an_answer_and_none_where_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cold = {"model": PLAIN, "messages": PROMPT, **COLD[CHAT]}
    async with rig(cache=True) as r:
        assert await commands(r, monkeypatch, cold) == ["ask", "submit"]
        assert await commands(r, monkeypatch, cold | {"temperature": 1}) == ["submit"]
    async with rig() as r:
        assert await commands(r, monkeypatch, cold) == ["submit"]
        reply = await r.client.get("/metrics")
        assert 'cache_total{result="bypass"} 0.0' in reply.text


async def test_switched_off_answers_say_nothing_of_it() -> None:
    async with gates(None) as g:
        for _ in range(2):
            assert "x-doublebuffer-cache" not in (await fill(g)).headers
        assert len(g.hands.granted) == 2
        assert asked(CHAT)["temperature"] == 0


async def test_several_answers_to_one_question_come_again_each_in_its_place() -> None:
    async with gates(None, cache=True) as g:
        first = post(g.one, CHAT, n=2)
        job = await g.hands.take()
        for place in range(6):
            g.hands.say(job, Content(f"a{place} ", 0), Content(f"b{place} ", 1))
        g.hands.say(job, Finish("stop", 1), Finish("stop", 0), Usage(7, 12))
        await g.hands.end(job)
        assert (await first).status_code == 200
        again = await post(g.two, CHAT, n=2, stream=False)
        assert again.headers["x-doublebuffer-cache"] == "hit"
        told = {choice["index"]: choice["message"]["content"] for choice in again.json()["choices"]}
        assert told == {0: "a0 a1 a2 a3 a4 a5 ", 1: "b0 b1 b2 b3 b4 b5 "}
        alone = post(g.one, CHAT, n=1, stream=False)
        await g.hands.answer("c")
        assert (await alone).headers["x-doublebuffer-cache"] == "miss"
