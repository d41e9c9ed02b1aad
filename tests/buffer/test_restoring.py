"""A store that comes back empty or older: a gateway puts its jobs there once more, and clients see a pause."""

from __future__ import annotations

import asyncio

import pytest

from buffer.follower import Follower
from buffer.heard import Said, decode_said
from buffer.inbox import Inbox
from buffer.job import Event, ToolDelta
from buffer.lanes import Lanes
from buffer.records import GivenBack, Limits
from tests.buffer.jobs import is_quiet, pull, record, words
from tests.buffer.losing import CHAT, DONE, Alive, Saved, begun, empty, has, reaped, there
from tests.buffer.running import answer, beside, submitted, until


@pytest.fixture
async def inbox(lanes: Lanes) -> Inbox:
    """Whoever is at a job that it restores has half a second to come for it."""
    inbox = Inbox(lanes, "gate", watch_s=0.1, lease_s=0.5)
    await inbox.create()
    return inbox


@pytest.mark.parametrize("what", ["words", "a tool call"])
async def test_an_empty_store_and_a_worker_that_lives(lanes: Lanes, inbox: Inbox, what: str) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run):
        follower = await begun(lanes, inbox, alive)
        more: list[Event] = [ToolDelta(0, "call", "name", "{}")] if what == "a tool call" else words("two ")
        alive.says("a", list(more))
        assert await follower.next() == more
        old = inbox.name
        await empty(lanes)
        alive.says("a", words("three "))
        await until(lambda: has(alive.statuses, "adopt"))
        alive.says("a", words("four"))
        assert await alive.writer.finish("a", DONE) == "ok"
        assert await answer(follower) == ("three four", DONE)
        assert inbox.name != old
        assert (await record(lanes, "a"))["taken"] == "0", "nothing was generated twice"
    assert await is_quiet(lanes)


async def test_an_empty_store_and_a_worker_that_died(lanes: Lanes, inbox: Inbox) -> None:
    dead, alive = Alive(lanes, "dead"), Alive(lanes)
    async with reaped(lanes), beside(inbox.run, alive.run, alive.writer.run, dead.writer.run):
        follower = await begun(lanes, inbox, dead)
        dead.dies()
        await empty(lanes)
        (granted,) = await alive.takes()
        assert decode_said(granted.prefix) == Said("one ")
        alive.says("a", words("two"))
        await alive.writer.finish("a", DONE)
        assert await answer(follower) == ("two", DONE)
    assert await is_quiet(lanes)


async def test_a_store_emptied_twice(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run):
        follower = await begun(lanes, inbox, alive)
        for word in ("two ", "three "):
            await empty(lanes)
            alive.says("a", words(word))
            assert await asyncio.wait_for(follower.next(), 10) == words(word)
        await alive.writer.finish("a", DONE)
        assert await answer(follower) == ("", DONE)


async def test_jobs_that_waited_wait_again_in_their_order(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.writer.run):
        followers = {id: await submitted(inbox, id, chat=CHAT) for id in ("a", "b", "c")}
        before = [int((await record(lanes, id))["arr"]) for id in followers]
        await empty(lanes)
        await until(lambda: there(lanes, followers))
        after = [int((await record(lanes, id))["arr"]) for id in followers]
        assert all(abs(one - other) < 200_000 for one, other in zip(before, after, strict=True))
        for granted, id in zip(await alive.takes(3), followers, strict=True):
            assert granted.id == id
            await alive.writer.finish(id, DONE)
            assert await answer(followers[id]) == ("", DONE)


async def test_a_job_given_back_waits_again_with_its_text(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.writer.run):
        follower = await begun(lanes, inbox, alive)
        assert await alive.writer.release("a", GivenBack("drain", Said("one "), spent=1)) == "waiting"
        await until(lambda: _waits(follower))
        await empty(lanes)
        (granted,) = await alive.takes()
        assert (decode_said(granted.prefix), granted.spent) == (Said("one "), 1)
        alive.says("a", words("two"))
        await alive.writer.finish("a", DONE)
        assert await answer(follower) == ("two", DONE)


async def _waits(follower: Follower) -> bool:
    return follower.waiting


async def test_an_older_store_and_a_worker_that_lives(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run):
        follower = await submitted(inbox, "a", chat=CHAT)
        saved = await Saved.now(lanes)
        await alive.takes()
        alive.says("a", words("one "))
        assert await follower.next() == words("one ")
        await saved.back(lanes)
        alive.says("a", words("two "))
        await until(lambda: has(alive.statuses, "adopt"))
        alive.says("a", words("three"))
        await alive.writer.finish("a", DONE)
        assert await answer(follower) == ("two three", DONE)
    assert await is_quiet(lanes)


async def test_an_end_that_is_not_the_clients_own_is_passed_over(lanes: Lanes, inbox: Inbox) -> None:
    """The store goes back to an older attempt, which its worker then ends."""
    older, alive = Alive(lanes, "older"), Alive(lanes)
    async with beside(inbox.run, alive.writer.run, older.writer.run):
        follower = await submitted(inbox, "a", chat=CHAT)
        (granted,) = await older.takes()
        saved = await Saved.now(lanes)
        back = await lanes.requeue("a", granted.fence, snapshot="", base="", spent=0, inbox=inbox.name)
        assert back.status == "queued"
        await alive.takes()
        alive.says("a", words("one "))
        assert await follower.next() == words("one ")
        alive.dies()
        await saved.back(lanes)
        older.says("a", words("another"))
        await older.writer.finish("a", DONE)
        async with reaped(lanes):
            (granted,) = await alive.takes()
        assert decode_said(granted.prefix) == Said("one ")
        alive.says("a", words("two"))
        await alive.writer.finish("a", DONE)
        assert await answer(follower) == ("two", DONE)


async def test_a_gateway_that_was_only_slow_finds_its_jobs_erased(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(alive.run, alive.writer.run):
        async with beside(inbox.run):
            begun_one = await begun(lanes, inbox, alive)
            waiting = await submitted(inbox, "b", chat=CHAT)
        await lanes.store.redis.delete(lanes.keys.inbox(inbox.name))
        assert (await pull(lanes)).jobs == []
        assert not await record(lanes, "b"), "whoever pulls takes its gateway for dead"
        async with beside(inbox.run):
            await until(lambda: there(lanes, ["b"]))
            for follower, id in ((begun_one, "a"), (waiting, "b")):
                if id == "b":
                    await alive.takes()
                alive.says(id, words("rest"))
                await alive.writer.finish(id, DONE)
                assert await answer(follower) == ("rest", DONE)
    assert await is_quiet(lanes)


async def test_restored_jobs_count_at_their_back_end(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.writer.run):
        await begun(lanes, inbox, alive)
        await submitted(inbox, "b", chat=CHAT)
        await empty(lanes)
        await until(lambda: there(lanes, ["a", "b"]))
        assert (await pull(lanes, limits=Limits(slots=1))).jobs == []
        (granted,) = (await pull(lanes, limits=Limits(slots=2))).jobs
        assert granted.id == "b"
