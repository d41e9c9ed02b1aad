"""Single flight over two gateways: one job, everybody's whole answer, whoever leaves and whatever fails."""

from __future__ import annotations

import pytest

from buffer.job import End, Finish, Reasoning, Usage
from tests.cache.asking import CHAT, OLLAMA, asked, cancelled, passengers, post, text, until_none
from tests.coming_back.rig import gates
from tests.gateway.rig import until


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


@pytest.mark.parametrize("kind", ["embedded", "redis"])
async def test_a_job_of_before_a_purge_goes_on_until_the_last_has_left(url: str | None) -> None:
    async with gates(url, cache=True) as g:
        old = [post(g.one, CHAT), post(g.two, CHAT)]
        before = await g.hands.take()
        await passengers(g, 2)
        await g.one.client.delete("/v1/cache")
        new = post(g.two, CHAT)
        after = await g.hands.take()
        old[0].cancel()
        await passengers(g, 2)
        assert not await cancelled(g, before.id)
        old[1].cancel()

        async def stops() -> bool:
            return await cancelled(g, before.id)

        await until(stops)
        assert not await cancelled(g, after.id)
        g.hands.say(after, "Hello", Finish("stop"), Usage(7, 2))
        await g.hands.end(after)
        assert text(CHAT, await new) == "Hello"
        await until_none(g)


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
