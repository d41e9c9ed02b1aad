"""pull: the best job that fits, and none that may not pass."""

from __future__ import annotations

import asyncio

from buffer.lanes import Lanes
from buffer.records import GivenBack, Limits
from tests.buffer.jobs import (
    LEASE_S,
    SHARE,
    carried,
    frames,
    ids,
    is_quiet,
    job,
    kinds,
    pull,
    ready,
    record,
    running,
)
from tests.rig.doorbell import Doorbell

W = 60_000_000


async def test_a_granted_job_is_leased_carried_and_announced(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", kv=50, prefill=20, prompt=30, long=True, lane="slow"))
    clock.forward(2)
    pulled = await pull(lanes)
    (granted,) = pulled.jobs
    assert (granted.fence, granted.waited_us, granted.arr_us) == (clock.now, 2_000_000, clock.now - 2_000_000)
    assert (granted.kv, granted.prefill, granted.long, granted.det, granted.prefix, granted.spent) == (
        50,
        20,
        True,
        False,
        "",
        0,
    )
    fields = await record(lanes, "a")
    assert (fields["st"], fields["worker"], fields["backend"], fields["n"]) == ("running", "w", "b", "0")
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + LEASE_S * 1_000_000
    arr = str(granted.arr_us)
    share = ("50", "20", "1", "slow", arr, arr, "30", "30", "10")
    assert await carried(lanes) == dict(zip(SHARE, share, strict=True))
    assert await kinds(lanes, "a") == [("0-1", "queued"), (f"{granted.fence}-0", "start")]
    assert await frames(lanes) == [{"id": "a", "f": str(granted.fence), "n": "0", "k": "start", "d": " b"}]
    assert await lanes.store.redis.zcard(lanes.keys.wait("m", "slow")) == 0


async def test_a_fence_rises_even_when_the_clock_goes_back(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a"))
    (first,) = (await pull(lanes)).jobs
    clock.forward(-2)
    await lanes.release("a", first.fence, 1, GivenBack("drain"))
    (second,) = (await pull(lanes)).jobs
    assert second.fence == first.fence + 1


async def test_the_lowest_score_first_over_lanes_and_models(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("slow", lane="slow", offset_us=W))
    await lanes.submit(job("normal", lane="normal", offset_us=15_000_000, model="n"))
    await lanes.submit(job("fast", lane="fast", offset_us=2_000_000))
    await lanes.submit(job("thinking", lane="thinking", offset_us=0))
    assert await ids(lanes, 4, models=["m", "n"]) == ["thinking", "fast", "normal", "slow"]


async def test_only_models_asked_for(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", model="other"))
    pulled = await pull(lanes)
    assert (pulled.jobs, pulled.waiting) == ([], 0)
    assert await ids(lanes, models=["other"]) == ["a"]


async def test_only_lanes_asked_for(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("slow", lane="slow", offset_us=0))
    clock.forward(100)
    await lanes.submit(job("fast", offset_us=0))
    assert await ids(lanes, 2, only=["fast"]) == ["fast"]
    assert await ids(lanes, 2, only=["background"]) == []
    assert await ids(lanes, 2) == ["slow"]


async def test_a_due_job_is_passed_by_none_that_came_later(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("slow", lane="slow", offset_us=2 * W, max_wait_us=W))
    clock.forward(60.000001)
    await lanes.submit(job("thinking", lane="thinking"))
    assert await ids(lanes) == ["slow"]


async def test_before_it_is_due_it_is_passed(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("slow", lane="slow", offset_us=2 * W, max_wait_us=W))
    clock.forward(60)
    await lanes.submit(job("thinking", lane="thinking"))
    assert await ids(lanes) == ["thinking"]


async def test_background_only_when_nobody_else_waits(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("back", lane="background"))
    clock.forward(1)
    await lanes.submit(job("slow", lane="slow", offset_us=W, kv=50))
    await lanes.submit(job("big", lane="slow", offset_us=W, kv=90, model="n"))
    limits = Limits(slots=10, kv=100)
    assert await ids(lanes, 3, limits=limits, models=["m", "n"]) == ["slow"]
    assert await ids(lanes, 3, limits=limits, models=["m"]) == ["back"]


async def test_a_job_whose_record_is_gone_is_cleared_away(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.submit(job("b"))
    await lanes.store.redis.delete(lanes.keys.job("a"))
    assert await ids(lanes, 2) == ["b"]
    assert await lanes.store.redis.zcard(lanes.keys.turn("m", "fast")) == 0
    assert await lanes.store.redis.zcard(lanes.keys.due("m")) == 0


async def test_a_job_whose_body_is_gone_is_erased(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.hdel(lanes.keys.job("a"), "body")
    assert await ids(lanes) == []
    assert (await lanes.place("a")).state == "gone"
    assert await is_quiet(lanes)


async def test_a_job_in_a_queue_that_does_not_wait_is_erased(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.hset(lanes.keys.job("a"), "st", "held")
    assert await ids(lanes) == []
    assert (await lanes.place("a")).state == "gone"
    assert await is_quiet(lanes)


async def test_a_job_without_an_inbox_is_erased_unless_detached(lanes: Lanes) -> None:
    await lanes.submit(job("a"))
    await lanes.submit(job("b", det=True))
    assert await ids(lanes, 2) == ["b"]
    assert (await lanes.place("a")).state == "gone"


async def test_a_job_past_its_deadline_expires(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=1_000_000))
    clock.forward(1)
    await lanes.submit(job("b", timeout_us=1_000_000))
    clock.forward(0.000001)
    assert await ids(lanes, 2) == ["b"]
    assert (await kinds(lanes, "a"))[-1][1] == "expired"
    assert (await frames(lanes))[0]["k"] == "expired"
    assert await record(lanes, "a") | {"st": "done"} == await record(lanes, "a")


async def test_what_waits_is_told(lanes: Lanes) -> None:
    await ready(lanes)
    for i in range(3):
        await lanes.submit(job(f"j{i}"))
    await lanes.submit(job("back", lane="background"))
    pulled = await pull(lanes, 3, limits=Limits(slots=2))
    assert (len(pulled.jobs), pulled.waiting) == (2, 2)


async def test_taken_back_it_keeps_its_place(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    clock.forward(5)
    await lanes.submit(job("b", user="other"))
    await lanes.release("a", granted.fence, 1, GivenBack("drain"))
    assert await ids(lanes, 2) == ["a", "b"]


async def test_so_many_are_ended_at_once_and_the_rest_by_coming_again(lanes: Lanes) -> None:
    clock = await ready(lanes)
    for i in range(150):
        await lanes.submit(job(f"j{i}", timeout_us=1_000_000))
    clock.forward(2)
    await lanes.submit(job("last"))
    left = []
    bell = await Doorbell.now(lanes)
    while not (pulled := await pull(lanes, 2)).jobs:
        left.append(pulled.waiting)
        async with asyncio.timeout(2):
            assert await bell.rings()
    assert left == [87, 23]
    assert [granted.id for granted in pulled.jobs] == ["last"]
