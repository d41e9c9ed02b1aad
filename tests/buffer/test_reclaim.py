"""reap: what becomes of jobs whose worker, and perhaps gateway, is gone."""

from __future__ import annotations

from typing import Any

from buffer.job import End
from buffer.lanes import Lanes
from buffer.outcomes import Reaped, Requeued
from buffer.records import GivenBack, Held
from tests.buffer.jobs import (
    INBOX,
    LEASE_S,
    START,
    Clock,
    at_home,
    chunk,
    clocked,
    frames,
    ids,
    is_quiet,
    job,
    kinds,
    pull,
    record,
    running,
)

NOTHING = Reaped(0, 0, 0, 0)


async def reap_until(lanes: Lanes, clock: Clock, seconds: float) -> list[Reaped]:
    """Time passes, reapers come by each quarter of a lease. What they did, if anything."""
    done = []
    end = clock.now + round(seconds * 1_000_000)
    while clock.now < end:
        clock.forward(LEASE_S / 4)
        reaped = await lanes.reap(LEASE_S)
        if reaped != NOTHING:
            done.append(reaped)
    return done


async def held(lanes: Lanes, **fields: Any) -> tuple[Clock, int]:
    """A job whose worker died. The clock, and the job's fence now."""
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    await running(lanes, **fields)
    assert await reap_until(lanes, clock, 16) == [Reaped(1, 1, 0, 1)]
    return clock, (await lanes.place("a")).fence


async def test_an_expired_lease_holds_the_job_for_its_gateway(lanes: Lanes) -> None:
    _, fence = await held(lanes)
    assert (await record(lanes, "a"))["st"] == "held"
    assert await lanes.store.redis.hlen(lanes.keys.load("b")) == 0
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == START + 20_000_000
    assert (await kinds(lanes, "a"))[-1] == (f"{fence}-0", "lost")
    assert (await frames(lanes))[-1] == {"id": "a", "f": str(fence), "n": "0", "k": "lost", "d": ""}
    assert await lanes.store.redis.xlen(lanes.keys.bell) == 1


async def test_the_old_owner_can_do_nothing_any_more(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    granted = await running(lanes)
    await reap_until(lanes, clock, 16)
    assert (await lanes.renew("w", [Held("a", granted.fence, "b")], LEASE_S))[0].status == "lost"
    assert await lanes.append([chunk(granted, 1, "late")]) == ["lost"]
    assert await lanes.release("a", granted.fence, 1, GivenBack("error")) == "lost"
    assert await lanes.settle("a", granted.fence, 1, End("done")) == "lost"
    assert (await record(lanes, "a"))["st"] == "held"


async def test_a_renewed_lease_is_left_alone(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    granted = await running(lanes)
    for _ in range(8):
        clock.forward(LEASE_S / 4)
        await lanes.renew("w", [Held("a", granted.fence, "b")], LEASE_S)
        assert await lanes.reap(LEASE_S) == NOTHING


async def test_after_an_outage_everybody_gets_a_whole_lease(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    await running(lanes)
    clock.forward(3600)
    assert await lanes.reap(LEASE_S) == NOTHING
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + 15_000_000
    assert (await record(lanes, "a"))["st"] == "running"


async def test_a_held_job_whose_gateway_answers_goes_back(lanes: Lanes) -> None:
    clock, fence = await held(lanes)
    clock.forward(1)
    back = await lanes.requeue("a", fence, snapshot="so far", base="6:9", spent=2, inbox="gate:2")
    assert back == Requeued("queued", clock.now)
    fields = await record(lanes, "a")
    assert (fields["st"], fields["prefix"], fields["base"], fields["spent"], fields["inbox"]) == (
        "waiting",
        "so far",
        "6:9",
        "2",
        "gate:2",
    )
    assert (await kinds(lanes, "a"))[-1] == (f"{clock.now}-0", "snap")
    assert await lanes.requeue("a", fence, snapshot="", base="", spent=0, inbox=INBOX) == Requeued("waiting", clock.now)
    await lanes.create_inbox("gate:2")
    (granted,) = (await pull(lanes)).jobs
    assert (granted.prefix, granted.taken) == ("so far", 1)


async def test_a_held_job_whose_gateway_is_silent_is_erased(lanes: Lanes) -> None:
    clock, _ = await held(lanes)
    await reap_until(lanes, clock, 6)
    assert (await lanes.place("a")).state == "gone"
    assert 0 < await lanes.store.redis.ttl(lanes.keys.reply("a")) <= 60, "what it had said goes too"
    assert await is_quiet(lanes)


async def test_a_held_detached_job_goes_on_without_its_gateway(lanes: Lanes) -> None:
    clock, fence = await held(lanes, det=True)
    await reap_until(lanes, clock, 6)
    (granted,) = (await pull(lanes)).jobs
    assert granted.prefix == "@reply"
    assert granted.fence > fence


async def test_a_gateway_settles_a_held_job(lanes: Lanes) -> None:
    _, fence = await held(lanes)
    assert await lanes.settle("a", fence, 1, End("failed")) == "ok"
    assert (await kinds(lanes, "a"))[-1] == (f"{fence}-1", "failed")
    assert await is_quiet(lanes)


async def test_taken_over_three_times_it_is_a_dead_letter(lanes: Lanes) -> None:
    clock, fence = await held(lanes)
    for _ in range(2):
        assert (await lanes.requeue("a", fence, snapshot="", base="", spent=0, inbox=INBOX)).status == "queued"
        await lanes.watch(INBOX, ["a"])
        assert await ids(lanes) == ["a"]
        last = await reap_until(lanes, clock, 16)
        fence = (await lanes.place("a")).fence
    assert last == [Reaped(0, 1, 1, 1)]
    assert (await kinds(lanes, "a"))[-1] == (f"{fence}-1", "failed")
    ((_, letter),) = await lanes.store.redis.xrange(lanes.keys.dead)
    assert letter[b"reason"] == b"taken over three times"
    assert await is_quiet(lanes)


async def test_a_cancelled_job_of_a_dead_worker_ends(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    await running(lanes)
    assert await lanes.cancel("a") == "running"
    await reap_until(lanes, clock, 16)
    assert (await kinds(lanes, "a"))[-1][1] == "cancelled"
    assert await is_quiet(lanes)


async def test_a_lease_without_a_job_is_cleared(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    await running(lanes)
    await lanes.store.redis.delete(lanes.keys.job("a"))
    assert [reaped.freed for reaped in await reap_until(lanes, clock, 16) if reaped.expired] == [1]
    assert await lanes.store.redis.exists(lanes.keys.lease, lanes.keys.load("b")) == 0
    assert await is_quiet(lanes)


async def test_entries_without_an_open_job_are_swept_away_round_and_round(lanes: Lanes) -> None:
    await at_home(lanes)
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    for i in range(20):
        await lanes.submit(job(f"j{i}"))
    for i in (3, 18):
        await lanes.store.redis.delete(lanes.keys.job(f"j{i}"))
    await lanes.store.redis.xadd(lanes.keys.jobs("fast"), {"garbage": "x"})
    await reap_until(lanes, clock, 20)
    assert await lanes.store.redis.xlen(lanes.keys.jobs("fast")) == 18
    assert await lanes.store.redis.zcard(lanes.keys.wait("m", "fast")) == 18
    assert await lanes.store.redis.zcard(lanes.keys.turn("m", "fast")) == 18
    assert await lanes.store.redis.zcard(lanes.keys.due("m")) == 18
    letters = [fields[b"id"] for _, fields in await lanes.store.redis.xrange(lanes.keys.dead)]
    assert letters == [b"j3", b"j18", b""]


async def test_a_held_job_is_cancelled_at_once(lanes: Lanes) -> None:
    await held(lanes)
    assert await lanes.cancel("a") == "cancelled"
    assert await is_quiet(lanes)


async def test_all_jobs_of_a_dead_worker_are_taken_over_at_once(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await at_home(lanes)
    await lanes.reap(LEASE_S)
    for i in range(150):
        await lanes.submit(job(f"j{i}"))
    assert len(await ids(lanes, 150)) == 150
    assert await reap_until(lanes, clock, 16) == [Reaped(150, 150, 0, 150)]
