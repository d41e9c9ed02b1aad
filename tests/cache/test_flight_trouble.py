"""Single flight in trouble: what fails, is refused, is lost or is away is not everybody's, if another try can help."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buffer.failures import STOPPING
from buffer.job import End, Failure, Finish, Usage
from buffer.keys import DONE_REPLY_S
from buffer.store import StoreUnavailable
from tests.cache.asking import CHAT, OLLAMA, OUT, passengers, post, text, until_none
from tests.coming_back.rig import gates


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


@pytest.mark.parametrize("kind", ["embedded", "redis"])
async def test_whoever_a_gateway_that_stops_has_told_so_is_to_send_it_again(url: str | None) -> None:
    """No id of theirs would lead to the answer."""
    async with gates(url, cache=True) as g:
        first = post(g.one, CHAT)
        job = await g.hands.take()
        others = [post(gate, CHAT, stream=stream) for gate in g.gates for stream in (True, False)]
        await passengers(g, 5)
        await g.one.end_answers()
        for told in (first, *others[:2]):
            assert (await told).status_code == 503
            assert (await told).json()["error"]["message"] == STOPPING.message
        await passengers(g, 2)
        g.hands.say(job, "Hello", Finish("stop"), Usage(7, 2))
        await g.hands.end(job)
        assert [text(CHAT, await other) for other in others[2:]] == ["Hello", "Hello"]


async def test_a_refusal_of_the_question_itself_is_everybody_s() -> None:
    async with gates(None, cache=True) as g:
        asks = [post(gate, CHAT) for gate in g.gates]
        await passengers(g, 2)
        await g.hands.end(await g.hands.take(), End("failed", Failure("Too long.", 400)))
        assert [(await one).status_code for one in asks] == [400, 400]
        assert len(g.hands.granted) == 1


async def test_a_queue_that_is_full_refuses_each_of_them_by_itself() -> None:
    async with gates(None, cache=True, queue_limit=1) as g:
        other = post(g.one, CHAT, temperature=0, seed=7)
        await g.waiting(1)
        refused = await asyncio.gather(*(post(gate, CHAT) for gate in g.gates))
        assert {reply.status_code for reply in refused} <= {429, 503}
        await g.hands.answer("x")
        await other
        await until_none(g)


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
