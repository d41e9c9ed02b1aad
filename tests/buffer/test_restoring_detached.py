"""Jobs that outlive their clients, and what becomes of them when workers, gateways and the store are lost."""

from __future__ import annotations

import pytest

from buffer.fold import fold
from buffer.follower import Follower
from buffer.heard import Said, decode_said
from buffer.inbox import Inbox
from buffer.job import Content, encode_events
from buffer.lanes import Lanes
from tests.buffer.jobs import is_quiet, words
from tests.buffer.losing import CHAT, DONE, Alive, begun, empty, has, reaped
from tests.buffer.running import answer, beside, submitted, until


@pytest.fixture
async def inbox(lanes: Lanes) -> Inbox:
    """Whoever is at a job that it restores has half a second to come for it."""
    inbox = Inbox(lanes, "gate", watch_s=0.1, lease_s=0.5)
    await inbox.create()
    return inbox


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
        await until(lambda: has(alive.statuses, "adopt"))
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
