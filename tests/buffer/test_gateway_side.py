"""requeue, cancel, watch: what a gateway does to its jobs."""

from __future__ import annotations

from buffer.job import End, Failure, decode_end
from buffer.lanes import Lanes
from buffer.outcomes import Requeued
from tests.buffer.jobs import (
    INBOX,
    LEASE_S,
    clocked,
    frames,
    is_quiet,
    job,
    running,
)


async def test_requeue_takes_a_job_back_from_anywhere(lanes: Lanes) -> None:
    clock = clocked(lanes)
    granted = await running(lanes)
    clock.forward(1)
    back = await lanes.requeue("a", granted.fence, snapshot="", base="", spent=0, inbox=INBOX)
    assert back == Requeued("queued", clock.now)
    assert (await lanes.load("b")).jobs == 0
    assert await lanes.store.redis.xlen(lanes.keys.bell) == 1
    again = await lanes.requeue("a", back.fence, snapshot="", base="", spent=0, inbox=INBOX)
    assert again == Requeued("queued", clock.now + 1)
    assert await lanes.store.redis.xlen(lanes.keys.jobs("fast")) == 1
    assert await lanes.requeue("none", 1, snapshot="", base="", spent=0, inbox=INBOX) == Requeued("gone", 0)
    await lanes.cancel("a")
    done = await lanes.requeue("a", again.fence, snapshot="", base="", spent=0, inbox=INBOX)
    assert done.status == "done"


async def test_cancel_wherever_the_job_is(lanes: Lanes) -> None:
    assert await lanes.cancel("none") == "gone"
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    assert await lanes.cancel("a") == "cancelled"
    assert await lanes.cancel("a") == "done"
    assert (await frames(lanes))[-1]["k"] == "cancelled"
    assert await is_quiet(lanes)


async def test_a_cancel_can_say_why(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    await lanes.cancel("a", "expired")
    assert (await frames(lanes))[-1]["k"] == "expired"
    granted = await running(lanes, "b")
    failure = End("expired", Failure("too old", 503, "queue_timeout"))
    assert await lanes.cancel("b", "expired", failure) == "running"
    assert await lanes.settle("b", granted.fence, 1, End("cancelled")) == "ok"
    assert decode_end((await frames(lanes))[-1]["d"].encode()) == failure


async def test_cancel_tells_the_worker_and_leaves_the_credit(lanes: Lanes) -> None:
    await lanes.renew("w", [], LEASE_S)
    granted = await running(lanes)
    assert await lanes.cancel("a") == "running"
    assert await lanes.cancel("a") == "running"
    last, controls = await lanes.controls("w", "0-0", 1)
    assert [control[:3] for control in controls] == [("cancel", "a", granted.fence)]
    assert (await lanes.load("b")).jobs == 1
    assert (await lanes.controls("w", last, 0.01))[1] == []


async def test_a_worker_that_is_not_there_gets_no_stream(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.cancel("a")
    assert await lanes.signal("a", "pause") is False
    assert await lanes.store.redis.exists(lanes.keys.ctl("w")) == 0


async def test_watch_lengthens_lives_and_tells_states(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.submit(job("b"))
    await lanes.submit(job("c"))
    await lanes.cancel("c")
    redis, keys = lanes.store.redis, lanes.keys
    for key in (keys.job("a"), keys.reply("a"), keys.job("c"), keys.reply("c")):
        await redis.expire(key, 30)
    await redis.expire(keys.inbox(INBOX), 3)
    watched = await lanes.watch(INBOX, ["a", "b", "c", "none"])
    assert watched.inbox_there
    assert [state for state, _ in watched.states] == ["running", "waiting", "done", "gone"]
    assert watched.states[0][1] == granted.fence
    assert await redis.ttl(keys.job("a")) > 3590
    assert await redis.ttl(keys.reply("a")) > 3590
    assert await redis.ttl(keys.job("c")) <= 30
    assert await redis.ttl(keys.reply("c")) <= 30
    assert 3 < await redis.ttl(keys.inbox(INBOX)) <= 15
    assert not (await lanes.watch("gate:none", [])).inbox_there


async def test_many_jobs_are_watched_in_parts(lanes: Lanes) -> None:
    asked = [f"j{i}" for i in range(1201)]
    watched = await lanes.watch(INBOX, asked)
    assert len(watched.states) == 1201
    assert not watched.inbox_there


async def test_an_inbox_is_made_once(lanes: Lanes) -> None:
    assert await lanes.create_inbox(INBOX)
    assert not await lanes.create_inbox(INBOX)
    assert await lanes.store.redis.xlen(lanes.keys.inbox(INBOX)) == 1
