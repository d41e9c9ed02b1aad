"""What is told of a request does not begin anew because the store did: its gateway knows when it was taken, and how
often."""

from __future__ import annotations

import asyncio

import pytest

from buffer.follower import Follower
from buffer.inbox import Inbox
from buffer.lanes import Lanes
from buffer.records import GivenBack
from buffer.standing import Standing, read_standing
from tests.buffer.jobs import words
from tests.buffer.losing import CHAT, DONE, Alive, Saved, begun, empty, has
from tests.buffer.running import answer, beside, submitted, until

PAUSE_S = 0.3
NEAR_US = 200_000


@pytest.fixture
async def inbox(lanes: Lanes) -> Inbox:
    inbox = Inbox(lanes, "gate", watch_s=0.1, lease_s=2.0)
    await inbox.create()
    return inbox


async def standing(lanes: Lanes, id: str = "a") -> Standing:
    found = await read_standing(lanes, id)
    assert found is not None
    return found


async def spoken(lanes: Lanes) -> Standing:
    """Once its first word is in the reply key."""

    async def found() -> Standing | None:
        now = await standing(lanes)
        return now if now.first_us else None

    first: Standing = await until(found)
    return first


def same(after: Standing, before: Standing) -> None:
    for name in ("arrived_us", "started_us", "first_us"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), abs=NEAR_US), name


async def given_back(lanes: Lanes, alive: Alive, follower: Follower) -> None:
    """The first attempt is over, and a second one is at it."""
    fence = alive.held.pop("a")
    assert await alive.writer.release("a", GivenBack("drain", said=follower.heard.said(), spent=1)) == "waiting"
    await alive.takes()
    assert alive.held["a"] > fence
    await until(lambda: _tries(follower, 2))


async def _tries(follower: Follower, count: int) -> bool:
    return follower.tries == count


@pytest.mark.parametrize("det", [False, True])
async def test_an_emptied_store(lanes: Lanes, inbox: Inbox, det: bool) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run):
        follower = await begun(lanes, inbox, alive, det=det)
        await given_back(lanes, alive, follower)
        before = await spoken(lanes)
        assert before.tries == 2
        for _ in range(2):
            await asyncio.sleep(PAUSE_S)
            alive.statuses.clear()
            await empty(lanes)
            await until(lambda: has(alive.statuses, "adopt"))
            after = await standing(lanes)
            assert (after.state, after.tries) == ("running", 2)
            same(after, before)
        alive.says("a", words("two"))
        await alive.writer.finish("a", DONE)
        assert await answer(follower) == ("two", DONE)
        after = await standing(lanes)
        assert (after.state, after.tries) == ("done", 2)
        same(after, before)


async def test_a_worker_that_died_with_the_store(lanes: Lanes, inbox: Inbox) -> None:
    """Who takes it then is one more."""
    dead, alive = Alive(lanes, "dead"), Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run, dead.writer.run):
        follower = await begun(lanes, inbox, dead)
        before = await spoken(lanes)
        assert await dead.writer.release("a", GivenBack("drain", said=follower.heard.said(), spent=1)) == "waiting"
        dead.dies()
        await until(lambda: _waits(follower))
        await empty(lanes)
        await asyncio.sleep(PAUSE_S)
        await alive.takes()
        after = await standing(lanes)
        assert (after.state, after.tries) == ("running", 2)
        same(after, before)


async def _waits(follower: Follower) -> bool:
    return follower.waiting


async def test_a_job_that_nobody_took_was_not_begun(lanes: Lanes, inbox: Inbox) -> None:
    async with beside(inbox.run):
        await submitted(inbox, "a", chat=CHAT)
        await empty(lanes)
        await until(lambda: read_standing(lanes, "a"))
        after = await standing(lanes)
        assert (after.state, after.tries, after.started_us, after.first_us) == ("waiting", 0, 0, 0)


async def test_an_older_store_that_knows_of_no_attempt(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run):
        follower = await submitted(inbox, "a", chat=CHAT)
        saved = await Saved.now(lanes)
        await alive.takes()
        alive.says("a", words("one "))
        await follower.next()
        before = await spoken(lanes)
        await asyncio.sleep(PAUSE_S)
        await saved.back(lanes)
        await until(lambda: has(alive.statuses, "adopt"))
        after = await standing(lanes)
        assert after.tries == 1
        same(after, before)
