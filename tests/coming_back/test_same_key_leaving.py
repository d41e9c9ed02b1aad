"""Clients of one Idempotency-Key that leave, over two gateways: the last of them takes the job with it."""

from __future__ import annotations

import pytest

from buffer.job import End, Finish
from buffer.records import Held
from tests.coming_back.rig import DETACH, gates, told, words
from tests.coming_back.same_key import claims, clients, post
from tests.coming_back.test_requests import CHAT
from tests.gateway.rig import until


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str | None:
    return request.getfixturevalue("redis_url") if kind == "redis" else None


@pytest.mark.parametrize("kind", ["embedded", "redis"])
@pytest.mark.parametrize("leaver", [0, 1])
async def test_one_of_two_leaves(leaver: int, url: str | None) -> None:
    """The job goes on for the other, whichever came first; when that one goes as well, it is cancelled."""
    async with gates(url) as g:
        asked = [post(g.one), post(g.two)]
        await clients(g, 2)
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        asked[leaver].cancel()
        await clients(g, 1)
        (renewed,) = await g.lanes.renew(g.hands.name, [Held(job.id, job.fence, g.hands.backend)], 30)
        assert renewed.status == "ok"
        g.hands.say(job, "lo")
        asked[1 - leaver].cancel()

        async def told_to_stop() -> bool:
            (renewed,) = await g.lanes.renew(g.hands.name, [Held(job.id, job.fence, g.hands.backend)], 30)
            return renewed.status == "cancel"

        await until(told_to_stop)
        assert await claims(g) == []
        third = post(g.one)
        await g.hands.end(job, End("cancelled"))
        await g.hands.answer("Anew")
        assert '"content":"Anew"' in (await third).text


async def test_one_leaves_and_the_other_has_all_of_it() -> None:
    async with gates(None) as g:
        first, second = post(g.one), post(g.two, stream=True)
        await clients(g, 2)
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        first.cancel()
        await clients(g, 1)
        g.hands.say(job, "lo", Finish("stop"))
        assert await g.hands.end(job) == "ok"
        assert words(CHAT, await told(g.two, job.id)) == "Hello"
        assert '"content":"lo"' in (await second).text


async def test_a_waiting_one_that_everybody_left_never_starts() -> None:
    async with gates(None) as g:
        asked = [post(g.one), post(g.two), post(g.two)]
        await clients(g, 3)
        for one in asked:
            one.cancel()
        await g.waiting(0)
        assert await claims(g) == []


async def test_detached_as_well_nobody_has_to_stay() -> None:
    async with gates(None) as g:
        asked = [post(g.one), post(g.two, headers=DETACH)]
        await clients(g, 2)
        for one in asked:
            one.cancel()
        await clients(g, 0)
        job = await g.hands.answer("Hi")
        assert '"content":"Hi"' in (await post(g.one)).text
        assert g.hands.granted == [job]
