"""Single flight over two gateways: one job, everybody's whole answer, whoever leaves and whatever fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from buffer.job import End, Failure, Finish, Reasoning, Usage
from buffer.keys import DONE_REPLY_S
from buffer.store import StoreUnavailable
from tests.coming_back.rig import BODIES, Gate, Gates, gates
from tests.gateway.rig import PLAIN, until

CHAT, OLLAMA = "/v1/chat/completions", "/api/chat"
COLD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"temperature": 0},
    "/v1/responses": {"temperature": 0},
    "/api/chat": {"options": {"temperature": 0}},
    "/api/generate": {"options": {"temperature": 0}},
    "/v1/completions": {"temperature": 0},
}
OUT = End("failed", Failure("No luck.", 502))


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str | None:
    return request.getfixturevalue("redis_url") if kind == "redis" else None


def asked(path: str, *, stream: bool = True, **more: Any) -> dict[str, Any]:
    return {"model": PLAIN, "stream": stream, **BODIES[path], **COLD[path], **more}


def post(gate: Gate, path: str, *, headers: dict[str, str] | None = None, **more: Any) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(gate.client.post(path, json=asked(path, **more), headers=headers))


async def flights(g: Gates) -> list[dict[str, str]]:
    """What the questions under way stand for."""
    redis = g.lanes.store.redis
    keys = [key async for key in redis.scan_iter(match=f"{g.lanes.store.prefix}:*:flight:*")]
    return [{k.decode(): v.decode() for k, v in (await redis.hgetall(key)).items()} for key in keys]


async def passengers(g: Gates, count: int) -> None:
    """Waits until so many clients wait for one answer."""

    async def so() -> bool:
        return sum(name.startswith("client:") for flight in await flights(g) for name in flight) == count

    await until(so)


def text(path: str, reply: httpx.Response) -> str:
    """The words of an answer in whatever form it came."""
    if "stream" not in reply.headers["content-type"] and "ndjson" not in reply.headers["content-type"]:
        return _words(path, reply.json())
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line[:1] == "{" or line[:6] == "data: "]
    return "".join(_words(path, json.loads(line)) for line in lines if line != "[DONE]")


def _words(path: str, data: dict[str, Any]) -> str:
    match path:
        case "/v1/chat/completions":
            choices = data["choices"]
            return "".join((one.get("delta") or one.get("message") or {}).get("content") or "" for one in choices)
        case "/v1/responses":
            if "output" in data:
                return "".join(part["text"] for item in data["output"] for part in item["content"])
            return str(data["delta"]) if data["type"] == "response.output_text.delta" else ""
        case "/api/chat":
            return str(data["message"]["content"])
        case _:
            return str(data["response"])


@pytest.mark.parametrize("kind", ["embedded", "redis"])
async def test_everybody_gets_the_whole_answer_in_his_own_form(url: str | None) -> None:
    paths = ("/v1/chat/completions", "/v1/responses", "/api/chat", "/api/generate")
    async with gates(url, cache=True) as g:
        first = post(g.one, CHAT)
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        both = [
            (path, post(gate, path, stream=stream))
            for gate in (g.one, g.two)
            for path in paths
            for stream in (True, False)
        ]
        await passengers(g, 1 + len(both))
        g.hands.say(job, "lo", Finish("stop"), Usage(7, 2))
        await g.hands.end(job)
        replies = [(CHAT, await first), *[(path, await reply) for path, reply in both]]
        for path, reply in replies:
            assert reply.status_code == 200, reply.text
            assert text(path, reply) == "Hello"
        ids = {reply.headers["x-doublebuffer-id"] for _, reply in replies}
        assert len(ids) == len(replies)
        assert len(g.hands.granted) == 1
        await until_none(g)
        kept = await g.two.client.post(OLLAMA, json=asked(OLLAMA))
        assert kept.headers["x-doublebuffer-cache"] == "hit"
        assert text(OLLAMA, kept) == "Hello"
        joined = sum(gate.metric('cache_total{result="joined"}') for gate in g.gates)
        assert joined == len(both)


async def until_none(g: Gates) -> None:
    async def so() -> bool:
        return await flights(g) == []

    await until(so)


@pytest.mark.parametrize("kind", ["embedded", "redis"])
async def test_the_job_goes_on_until_the_last_has_left(url: str | None) -> None:
    async with gates(url, cache=True) as g:
        first = post(g.one, CHAT)
        job = await g.hands.take()
        second, third = post(g.two, CHAT), post(g.one, OLLAMA)
        await passengers(g, 3)
        first.cancel()
        await passengers(g, 2)
        g.hands.say(job, "Hel")
        second.cancel()
        await passengers(g, 1)
        assert not await cancelled(g, job.id)
        g.hands.say(job, "lo", Finish("stop"), Usage(7, 2))
        await g.hands.end(job)
        assert text(OLLAMA, await third) == "Hello"

        alone = [post(g.one, CHAT, temperature=0, seed=1), post(g.two, CHAT, temperature=0, seed=1)]
        job = await g.hands.take()
        await passengers(g, 2)
        for one in alone:
            one.cancel()

        async def stops() -> bool:
            return await cancelled(g, job.id)

        await until(stops)
        await until_none(g)


async def cancelled(g: Gates, id: str) -> bool:
    """Whether a job's worker has been told to stop."""
    return bool(await g.lanes.store.redis.hget(g.lanes.keys.job(id), "cancel"))


@pytest.mark.parametrize("kind", ["embedded", "redis"])
async def test_what_fails_before_its_first_word_is_tried_once_more_by_those_who_joined(url: str | None) -> None:
    async with gates(url, cache=True) as g:
        first = post(g.one, CHAT)
        job = await g.hands.take()
        others = [post(gate, path) for gate in g.gates for path in (CHAT, OLLAMA)]
        await passengers(g, 5)
        await g.hands.end(job, OUT)
        assert (await first).status_code == 502
        await g.hands.answer("Hel", "lo")
        for path, other in zip((CHAT, OLLAMA) * 2, others, strict=True):
            assert text(path, await other) == "Hello"
        assert len(g.hands.granted) == 2
        await until_none(g)


async def test_nobody_tries_a_third_time() -> None:
    async with gates(None, cache=True) as g:
        asks = [post(gate, CHAT) for gate in g.gates]
        await passengers(g, 2)
        for _ in range(2):
            await g.hands.end(await g.hands.take(), OUT)
        assert [(await one).status_code for one in asks] == [502, 502]
        await until_none(g)
        assert len(g.hands.granted) == 2


async def test_a_refusal_of_the_question_itself_is_everybody_s() -> None:
    async with gates(None, cache=True) as g:
        asks = [post(gate, CHAT) for gate in g.gates]
        await passengers(g, 2)
        await g.hands.end(await g.hands.take(), End("failed", Failure("Too long.", 400)))
        assert [(await one).status_code for one in asks] == [400, 400]
        assert len(g.hands.granted) == 1


async def test_whoever_cancels_his_request_by_its_id_cancels_nobody_else_s() -> None:
    async with gates(None, cache=True) as g:
        first = post(g.one, CHAT)
        await g.hands.take()
        second = post(g.two, CHAT)
        await passengers(g, 2)
        gone = await g.one.client.delete(f"/v1/requests/{g.hands.granted[0].id}")
        assert gone.status_code < 300, gone.text
        await g.hands.end(g.hands.granted[0], End("cancelled"))
        await g.hands.answer("Hello")
        assert text(CHAT, await second) == "Hello"
        assert (await first).status_code >= 400


async def test_a_queue_that_is_full_refuses_each_of_them_by_itself() -> None:
    async with gates(None, cache=True, queue_limit=1) as g:
        other = post(g.one, CHAT, temperature=0, seed=7)
        await g.waiting(1)
        refused = await asyncio.gather(*(post(gate, CHAT) for gate in g.gates))
        assert {reply.status_code for reply in refused} <= {429, 503}
        await g.hands.answer("x")
        await other
        await until_none(g)


async def test_an_answer_that_turns_out_to_think_is_everybody_s_and_nobody_s_after() -> None:
    async with gates(None, cache=True) as g:
        asks = [post(gate, CHAT) for gate in g.gates]
        await passengers(g, 2)
        job = await g.hands.take()
        g.hands.say(job, Reasoning("hm"), "Hello", Finish("stop"), Usage(7, 2))
        await g.hands.end(job)
        for one in asks:
            assert text(CHAT, await one) == "Hello"
            assert '"reasoning_content":"hm"' in (await one).text
        again = post(g.one, CHAT)
        await g.hands.answer("Hello")
        assert (await again).headers["x-doublebuffer-cache"] == "miss"


async def test_who_asks_for_a_lane_sends_a_job_that_nobody_joins() -> None:
    async with gates(None, cache=True) as g:
        slow = post(g.one, CHAT, headers={"X-Doublebuffer-Lane": "background"})
        await g.waiting(1)
        quick = post(g.two, CHAT)
        await g.waiting(2)
        await g.hands.answer("Hello")
        await g.hands.answer("Hello")
        assert (await slow).status_code == (await quick).status_code == 200


async def test_switched_off_each_asks_by_itself_and_answers_are_kept() -> None:
    async with gates(None, cache=True, single_flight=False) as g:
        asks = [post(gate, CHAT) for gate in g.gates]
        await g.waiting(2)
        await g.hands.answer("Hello")
        await g.hands.answer("Hello")
        assert [text(CHAT, await one) for one in asks] == ["Hello", "Hello"]
        assert (await post(g.two, CHAT)).headers["x-doublebuffer-cache"] == "hit"


async def test_without_a_cache_those_at_the_same_time_are_one() -> None:
    async with gates(None, cache=False, single_flight=True) as g:
        asks = [post(gate, CHAT) for gate in g.gates]
        await passengers(g, 2)
        await g.hands.answer("Hello")
        assert [text(CHAT, await one) for one in asks] == ["Hello", "Hello"]
        again = post(g.one, CHAT)
        await g.hands.answer("Hello again")
        assert text(CHAT, await again) == "Hello again"


@pytest.mark.parametrize("kind", ["embedded", "redis"])
@pytest.mark.parametrize("fails", [False, True])
async def test_what_was_asked_and_said_goes_as_soon_as_that_of_other_jobs(url: str | None, fails: bool) -> None:
    """Though the job may outlive its gateway."""
    async with gates(url, cache=True) as g:
        first = post(g.one, CHAT)
        job = await g.hands.take()
        g.hands.say(job, "Hel", Finish("stop"), Usage(7, 1))
        await g.hands.end(job, OUT if fails else End("done"))
        await first
        redis, keys = g.lanes.store.redis, g.lanes.keys
        assert 0 < await redis.ttl(keys.reply(job.id)) <= DONE_REPLY_S
        assert not await redis.hexists(keys.job(job.id), "body")


async def test_a_store_that_comes_back_empty_costs_nobody_his_answer(redis_url: str) -> None:
    async with gates(redis_url, cache=True, lease_seconds=2) as g:
        asks = [post(gate, path) for gate in g.gates for path in (CHAT, OLLAMA)]
        await passengers(g, 4)
        await g.lanes.store.redis.flushdb()
        await g.hands.show()
        job = await g.hands.take()
        g.hands.say(job, "Hel", "lo", Finish("stop"), Usage(7, 2))
        await g.hands.end(job)
        for one, path in zip(asks, (CHAT, OLLAMA) * 2, strict=True):
            assert text(path, await one) == "Hello"
        assert len(g.hands.granted) == 1


async def test_who_finds_too_many_readers_sends_a_job_of_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("buffer.listening.Listening.open", lambda *_, **__: None)
    async with gates(None, cache=True) as g:
        first = post(g.one, CHAT)
        await g.waiting(1)
        second = post(g.two, CHAT)
        await g.waiting(2)
        await passengers(g, 1)
        await g.hands.answer("Hello")
        await g.hands.answer("Hello")
        assert [text(CHAT, await one) for one in (first, second)] == ["Hello", "Hello"]


@pytest.mark.parametrize("told", ["nothing", "another pool"])
async def test_a_gateway_that_died_before_it_sent_the_job_holds_nobody_up(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.flights.SUBMIT_S", 0.2)
    async with gates(None, cache=True) as g:
        first = post(g.one, CHAT)
        await g.hands.answer("Hello")
        await first
        await g.one.client.delete("/v1/cache")
        question = post(g.one, CHAT)
        await passengers(g, 1)
        (key,) = [key async for key in g.lanes.store.redis.scan_iter(match="*:flight:*")]
        await g.lanes.store.redis.hset(
            key, mapping={"job": "0" * 32, "pool": "gone" if told != "nothing" else "default"}
        )
        other = post(g.two, CHAT)
        await g.waiting(2)
        await g.hands.answer("Hello")
        await g.hands.answer("Hello")
        assert [text(CHAT, await one) for one in (question, other)] == ["Hello", "Hello"]


async def test_a_store_that_is_away_costs_no_answer_that_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not kept, that is all."""
    async with gates(None, cache=True) as g:
        first = post(g.one, CHAT)
        job = await g.hands.take()

        async def away(*_: Any, **__: Any) -> None:
            raise StoreUnavailable("Redis cannot be reached.")

        monkeypatch.setattr("buffer.cache.Shelf.land", away)
        g.hands.say(job, "Hello", Finish("stop"), Usage(7, 1))
        await g.hands.end(job)
        assert text(CHAT, await first) == "Hello"
        monkeypatch.setattr("buffer.cache.Shelf.ask", away)
        again = post(g.one, CHAT)
        await g.hands.answer("Hello")
        assert (await again).headers["x-doublebuffer-cache"] == "bypass"
