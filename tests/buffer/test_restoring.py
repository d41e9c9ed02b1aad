"""A store that comes back empty or older: a gateway puts its jobs there once more, and clients see a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from buffer.access import Command, StoreUnavailable
from buffer.fold import fold
from buffer.follower import Follower
from buffer.heard import Said, decode_said
from buffer.inbox import Inbox
from buffer.job import Chat, Content, End, Event, Message, ToolDelta, encode_events
from buffer.lanes import Lanes
from buffer.records import GivenBack, Limits
from tests.buffer.jobs import is_quiet, pull, record, words
from tests.buffer.losing import Alive, Saved, empty
from tests.buffer.running import answer, beside, submitted, until

CHAT = Chat("m", [Message("user", "hello")], stream=True)
DONE = End("done")


@pytest.fixture
async def inbox(lanes: Lanes) -> Inbox:
    """Whoever is at a job that it restores has half a second to come for it."""
    inbox = Inbox(lanes, "gate", watch_s=0.1, lease_s=0.5)
    await inbox.create()
    return inbox


@asynccontextmanager
async def reaped(lanes: Lanes) -> AsyncIterator[None]:
    """A reaper comes by often."""

    async def reap() -> None:
        while True:
            await lanes.reap(2.0, 5.0)
            await asyncio.sleep(0.1)

    async with beside(reap):
        yield


async def begun(lanes: Lanes, inbox: Inbox, alive: Alive, *, id: str = "a", **fields: Any) -> Follower:
    """A job of which its client has the first word."""
    follower = await submitted(inbox, id, chat=CHAT, **fields)
    await alive.takes()
    alive.says(id, words("one "))
    assert await follower.next() == words("one ")
    return follower


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
        await until(lambda: _has(alive.statuses, "adopt"))
        alive.says("a", words("four"))
        assert await alive.writer.finish("a", DONE) == "ok"
        assert await answer(follower) == ("three four", DONE)
        assert inbox.name != old
        assert (await record(lanes, "a"))["taken"] == "0", "nothing was generated twice"
    assert await is_quiet(lanes)


async def _has(some: Sequence[Any], one: Any) -> bool:
    return one in some


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
        await until(lambda: _there(lanes, followers))
        after = [int((await record(lanes, id))["arr"]) for id in followers]
        assert all(abs(one - other) < 200_000 for one, other in zip(before, after, strict=True))
        for granted, id in zip(await alive.takes(3), followers, strict=True):
            assert granted.id == id
            await alive.writer.finish(id, DONE)
            assert await answer(followers[id]) == ("", DONE)


async def _there(lanes: Lanes, ids: Any) -> bool:
    return all([await record(lanes, id) for id in ids])


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
        await until(lambda: _has(alive.statuses, "adopt"))
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


async def test_two_gateways_restore_their_own(lanes: Lanes, inbox: Inbox) -> None:
    other = Inbox(lanes, "other", watch_s=0.1)
    await other.create()
    alive = Alive(lanes)
    async with beside(inbox.run, other.run, alive.run, alive.writer.run):
        mine = await begun(lanes, inbox, alive)
        theirs = await begun(lanes, other, alive, id="b")
        waiting = await submitted(other, "c", chat=CHAT)
        await empty(lanes)
        for follower, id in ((mine, "a"), (theirs, "b")):
            alive.says(id, words(f"of {id}"))
            await alive.writer.finish(id, DONE)
            assert await answer(follower) == (f"of {id}", DONE)
        await alive.takes()
        await alive.writer.finish("c", DONE)
        assert await answer(waiting) == ("", DONE)
        assert (await record(lanes, "b"))["inbox"] == other.name
    assert await is_quiet(lanes)


@pytest.mark.parametrize("back", [False, True])
async def test_a_burst_in_the_midst_of_which_the_store_is_lost(lanes: Lanes, inbox: Inbox, back: bool) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run):
        followers = [await submitted(inbox, f"j{i}", chat=CHAT) for i in range(40)]
        took = await alive.takes(15)
        for granted in took:
            alive.says(granted.id, words("1 "))
        await asyncio.gather(*(followers[int(granted.id[1:])].wait() for granted in took))
        saved = await Saved.now(lanes)
        followers += [await submitted(inbox, f"j{i}", chat=CHAT) for i in range(40, 80)]
        took += await alive.takes(40)
        for granted in took:
            alive.says(granted.id, words("2 "))
        await (saved.back(lanes) if back else empty(lanes))
        for granted in took:
            alive.says(granted.id, words("3 "))

        async def anew() -> None:
            """Whoever waits, those among them whose start their gateway had not heard of."""
            while not all(follower.ended for follower in followers):
                for granted in (await pull(lanes, 50)).jobs:
                    alive.writer.attach(granted)
                    alive.held[granted.id] = granted.fence
                    alive.says(granted.id, words("1 ", "2 ", "3 "))
                    group.create_task(alive.writer.finish(granted.id, DONE))
                await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as group:
            for granted in took:
                group.create_task(alive.writer.finish(granted.id, DONE))
            group.create_task(anew())
            answers = [await answer(follower) for follower in followers]
        for i, (text, end) in enumerate(answers):
            assert end == DONE
            assert text == "1 2 3 " or (i >= 15 and text == "2 3 "), f"j{i}"
    assert await is_quiet(lanes)


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
            await until(lambda: _there(lanes, ["b"]))
            for follower, id in ((begun_one, "a"), (waiting, "b")):
                if id == "b":
                    await alive.takes()
                alive.says(id, words("rest"))
                await alive.writer.finish(id, DONE)
                assert await answer(follower) == ("rest", DONE)
    assert await is_quiet(lanes)


class Flaky:
    """In the place of ``exchange``: some calls are lost on the way there, some on the way back."""

    def __init__(self, lanes: Lanes, losses: str) -> None:
        self._exchange = lanes._exchange
        self._losses = list(losses)

    async def __call__(self, commands: Sequence[Command], **more: Any) -> list[Any]:
        loss = self._losses.pop(0) if self._losses and any("EVALSHA" in command for command in commands) else ""
        if loss == "<":
            raise StoreUnavailable("lost on the way there")
        results = await self._exchange(commands, **more)
        if loss == ">":
            raise StoreUnavailable("lost on the way back")
        return results


@pytest.mark.parametrize("losses", ["<", ">", "<>", "><", ">>><"])
async def test_a_job_is_restored_through_an_outage(
    lanes: Lanes, inbox: Inbox, losses: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = Alive(lanes)
    async with beside(alive.run, alive.writer.run):
        async with beside(inbox.run):
            follower = await begun(lanes, inbox, alive)
        await lanes.store.redis.delete(lanes.keys.job("a"))
        inbox_lanes = Lanes(lanes.store)
        monkeypatch.setattr(inbox_lanes, "_exchange", Flaky(inbox_lanes, losses), raising=True)
        inbox._errands._handing._lanes = inbox_lanes
        async with beside(inbox.run):
            alive.says("a", words("two"))
            await until(lambda: _has(alive.statuses, "adopt"))
            await alive.writer.finish("a", DONE)
            assert await answer(follower) == ("two", DONE)


async def test_a_client_that_leaves_meanwhile_takes_its_job_along(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(alive.run, alive.writer.run):
        async with beside(inbox.run):
            follower = await begun(lanes, inbox, alive)
            waiting = await submitted(inbox, "b", chat=CHAT)
            await empty(lanes)
            await until(lambda: _there(lanes, ["a", "b"]))
            waiting.close()
            follower.close()
            await until(lambda: _has(alive.statuses, "cancel"))
            await alive.writer.finish("a", End("cancelled"))
        assert await is_quiet(lanes)


async def test_a_detached_job_is_restored_without_its_client(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run):
        follower = await begun(lanes, inbox, alive, det=True)
        follower.close()
        alive.says("a", words("two "))
        await until(lambda: _heard(follower, "one two "))
        assert not follower.ready, "it gives nothing out"
        await empty(lanes)
        alive.says("a", words("three"))
        await until(lambda: _has(alive.statuses, "adopt"))
        await alive.writer.finish("a", DONE)
        folded = fold(await lanes.reply("a"))
        assert (folded.whole(), folded.end) == (Said("one two three"), DONE)
        await until(lambda: _ended(follower))
        assert not inbox._followers, "it is followed to its end, and no further"
    assert await is_quiet(lanes)


async def _heard(follower: Follower, text: str) -> bool:
    return follower.heard.said().text == text


async def _ended(follower: Follower) -> bool:
    return follower.ended


async def test_a_detached_job_goes_on_without_its_client_and_its_worker(lanes: Lanes, inbox: Inbox) -> None:
    dead, alive = Alive(lanes, "dead"), Alive(lanes)
    async with reaped(lanes), beside(inbox.run, alive.writer.run, dead.writer.run):
        follower = await begun(lanes, inbox, dead, det=True)
        follower.close()
        dead.dies()
        await empty(lanes)
        (granted,) = await alive.takes()
        assert decode_said(granted.prefix) == Said("one ")
        alive.says("a", words("two"))
        await alive.writer.finish("a", DONE)
        folded = fold(await lanes.reply("a"))
        assert (folded.whole(), folded.end) == (Said("one two"), DONE)


async def test_a_detached_answer_goes_on_from_what_others_may_have_read(lanes: Lanes, inbox: Inbox) -> None:
    """The reply key of a detached job has more than came in frames before its worker died."""
    dead, alive = Alive(lanes, "dead"), Alive(lanes)
    async with beside(inbox.run, alive.writer.run):
        follower = await submitted(inbox, "a", chat=CHAT, det=True)
        async with beside(dead.writer.run):
            (granted,) = await dead.takes()
            dead.says("a", words("one "))
            assert await follower.next() == words("one ")
        entry = f"{granted.fence}-2"
        blob = fold(await lanes.reply("a"))
        assert blob.n == 1
        await lanes.store.redis.xadd(
            lanes.keys.reply("a"), {"k": "ev", "n": 2, "d": encode_events([Content("two ")])}, id=entry
        )
        await lanes.reap(2.0)
        await lanes.store.redis.zadd(lanes.keys.lease, {"a": 1})
        await lanes.reap(2.0)
        (again,) = await alive.takes()
        assert decode_said(again.prefix) == Said("one two ")
        alive.says("a", words("three"))
        await alive.writer.finish("a", DONE)
        assert await answer(follower) == ("two three", DONE)


async def test_a_detached_job_whose_gateway_died_goes_on_from_its_reply_key(lanes: Lanes, inbox: Inbox) -> None:
    dead, alive = Alive(lanes, "dead"), Alive(lanes)
    async with beside(dead.writer.run), beside(inbox.run):
        await begun(lanes, inbox, dead, det=True)
    await lanes.store.redis.delete(lanes.keys.inbox(inbox.name))
    await lanes.reap(2.0, 0.1)
    await lanes.store.redis.zadd(lanes.keys.lease, {"a": 1})
    assert (await lanes.reap(2.0, 0.1)).taken_over == 1
    await lanes.store.redis.zadd(lanes.keys.lease, {"a": 1})
    await lanes.reap(2.0, 0.1)
    async with beside(alive.writer.run):
        (granted,) = await alive.takes()
        assert granted.prefix == "@reply"
        assert fold(await lanes.reply("a")).whole() == Said("one ")
        alive.says("a", words("two"))
        await alive.writer.finish("a", DONE)
    folded = fold(await lanes.reply("a"))
    assert (folded.whole(), folded.end) == (Said("one two"), DONE)
    assert await is_quiet(lanes)


async def test_restored_jobs_count_at_their_back_end(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.writer.run):
        await begun(lanes, inbox, alive)
        await submitted(inbox, "b", chat=CHAT)
        await empty(lanes)
        await until(lambda: _there(lanes, ["a", "b"]))
        assert (await pull(lanes, limits=Limits(slots=1))).jobs == []
        (granted,) = (await pull(lanes, limits=Limits(slots=2))).jobs
        assert granted.id == "b"
