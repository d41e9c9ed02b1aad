"""pull: the best job that fits, and none that may not pass."""

from __future__ import annotations

import asyncio

from buffer.job import End
from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.jobs import (
    INBOX,
    LEASE_S,
    Clock,
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

W = 60_000_000


async def ready(lanes: Lanes) -> Clock:
    """A clock in the test's hands, and the inbox there."""
    clock = clocked(lanes)
    await lanes.create_inbox(INBOX)
    return clock


async def test_a_granted_job_is_leased_carried_and_announced(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", kv=50, prefill=20, long=True))
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
    assert pulled.seen == {}
    fields = await record(lanes, "a")
    assert (fields["st"], fields["worker"], fields["backend"], fields["n"]) == ("running", "w", "b", "0")
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + LEASE_S * 1_000_000
    assert await lanes.store.redis.hgetall(lanes.keys.load("b")) == {b"a": b"50,20,1"}
    assert await kinds(lanes, "a") == [("0-1", "queued"), (f"{granted.fence}-0", "start")]
    assert await frames(lanes) == [{"id": "a", "f": str(granted.fence), "n": "0", "k": "start", "d": " b"}]
    assert await lanes.store.redis.zcard(lanes.keys.wait("m", "fast")) == 0


async def test_a_fence_rises_even_when_the_clock_goes_back(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a"))
    (first,) = (await pull(lanes)).jobs
    clock.forward(-2)
    await lanes.release("a", first.fence, 1, why="drain")
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


async def test_never_above_the_slots(lanes: Lanes) -> None:
    await ready(lanes)
    for i in range(5):
        await lanes.submit(job(f"j{i}"))
    assert len(await ids(lanes, 5, limits=Limits(slots=3))) == 3
    assert await ids(lanes, 5, limits=Limits(slots=3), worker="other") == []
    assert len(await ids(lanes, 5, limits=Limits(slots=3), backend="b2")) == 2


async def test_reserved_slots_are_for_short_jobs(lanes: Lanes) -> None:
    await ready(lanes)
    for i in range(4):
        await lanes.submit(job(f"n{i}", lane="normal"))
    limits = Limits(slots=3, reserved_slots=1)
    assert len(await ids(lanes, 4, limits=limits)) == 2
    await lanes.submit(job("f", offset_us=1000))
    assert await ids(lanes, 4, limits=limits) == ["f"]


async def test_a_back_end_of_one_slot_reserves_none(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("n", lane="normal"))
    assert await ids(lanes, limits=Limits(slots=1, reserved_slots=1)) == ["n"]


async def test_kv_credit_holds_and_a_smaller_job_goes_ahead(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=10, kv=100)
    for id, kv in (("a", 60), ("b", 60), ("c", 40), ("d", 1)):
        await lanes.submit(job(id, kv=kv))
        clock.forward(1)
    assert await ids(lanes, 10, limits=limits) == ["a", "c"]
    load = await lanes.load("b")
    assert (load.jobs, load.kv) == (2, 100)


async def test_part_of_the_kv_is_for_short_jobs(lanes: Lanes) -> None:
    await ready(lanes)
    limits = Limits(slots=10, kv=100, kv_reserve=8)
    await lanes.submit(job("a", kv=50))
    await lanes.submit(job("n", kv=45, lane="normal"))
    assert await ids(lanes, 2, limits=limits) == ["a"]
    await lanes.submit(job("f", kv=45, offset_us=1000))
    assert await ids(lanes, 2, limits=limits) == ["f"]


async def test_a_job_larger_than_the_credit_goes_alone(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=10, kv=100)
    await lanes.submit(job("small", kv=10))
    clock.forward(1)
    await lanes.submit(job("huge", kv=500))
    (small,) = (await pull(lanes, 2, limits=limits)).jobs
    assert small.id == "small"
    await lanes.settle("small", small.fence, 1, End("done"))
    assert await ids(lanes, 2, limits=limits) == ["huge"]
    await lanes.submit(job("next", kv=1))
    assert await ids(lanes, 2, limits=limits) == []


async def test_nothing_passes_a_job_that_does_not_fit_by_more_than_its_wait(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=10, kv=100)
    await lanes.submit(job("a", kv=60))
    assert await ids(lanes, limits=limits) == ["a"]
    await lanes.submit(job("big", kv=60, lane="slow", max_wait_us=10_000_000))
    clock.forward(10)
    await lanes.submit(job("in time", kv=1))
    clock.forward(0.000001)
    await lanes.submit(job("late", kv=1))
    assert await ids(lanes, 10, limits=limits) == ["in time"]


async def test_long_prompts_have_a_bound(lanes: Lanes) -> None:
    await ready(lanes)
    limits = Limits(slots=10, long=1)
    for id, long in (("a", True), ("b", True), ("c", False)):
        await lanes.submit(job(id, long=long))
    assert await ids(lanes, 3, limits=limits) == ["a", "c"]


async def test_prefill_credit_is_free_after_the_first_token(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=10, prefill=1000)
    for id in ("a", "b"):
        await lanes.submit(job(id, prefill=800, lane="normal"))
        clock.forward(1)
    await lanes.submit(job("f", prefill=400))
    granted = (await pull(lanes, 3, limits=limits)).jobs
    assert [one.id for one in granted] == ["a", "f"]
    assert await ids(lanes, 3, limits=limits) == []
    pairs = [(one.id, one.fence) for one in granted]
    assert await lanes.prefilled([*pairs, ("a", 1), ("none", 1)]) == 2
    assert await lanes.prefilled(pairs) == 0
    assert (await lanes.load("b")).prefill == 0
    assert await ids(lanes, 3, limits=limits) == ["b"]


async def test_no_more_than_sixteen_are_looked_at(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=100, kv=100)
    await lanes.submit(job("a", kv=60))
    assert await ids(lanes, limits=limits) == ["a"]
    for i in range(16):
        await lanes.submit(job(f"big{i}", kv=60, user=f"u{i}"))
    clock.forward(1)
    await lanes.submit(job("small", kv=1, user="s"))
    assert await ids(lanes, limits=limits) == []
    await lanes.cancel("big0")
    assert await ids(lanes, limits=limits) == ["small"]


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


async def test_what_waits_and_what_was_seen_is_told(lanes: Lanes) -> None:
    await ready(lanes)
    for i in range(3):
        await lanes.submit(job(f"j{i}"))
    await lanes.submit(job("back", lane="background"))
    pulled = await pull(lanes, 3, limits=Limits(slots=2))
    assert (len(pulled.jobs), pulled.waiting) == (2, 2)
    assert set(pulled.seen) == {
        *(lanes.keys.jobs(lane) for lane in ("thinking", "fast", "normal", "slow", "background")),
        lanes.keys.bell,
    }


async def test_an_idle_worker_wakes_at_a_submit(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    pulled = await pull(lanes)
    assert not await lanes.idle(pulled.seen, 0.05)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(lanes.idle(pulled.seen, 20))
        await asyncio.sleep(0)
        await lanes.submit(job("a"))
        async with asyncio.timeout(2):
            assert await waiting


async def test_a_submit_between_pull_and_waiting_is_not_missed(lanes: Lanes) -> None:
    pulled = await pull(lanes)
    await lanes.submit(job("a"))
    async with asyncio.timeout(2):
        assert await lanes.idle(pulled.seen, 20)


async def test_the_bell_wakes_too(lanes: Lanes) -> None:
    pulled = await pull(lanes)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(lanes.idle(pulled.seen, 20))
        await asyncio.sleep(0)
        await lanes.ring_bell()
        async with asyncio.timeout(2):
            assert await waiting


async def test_counts_for_the_window_and_the_metrics(lanes: Lanes) -> None:
    clock = await ready(lanes)
    assert (await lanes.peek(["m"])).waiting == 0
    await lanes.submit(job("back", lane="background", model="n"))
    arrived = clock.now
    clock.forward(3)
    await lanes.submit(job("a", lane="slow"))
    await lanes.submit(job("b"))
    clock.forward(1)
    peeked = await lanes.peek(["m", "n"])
    assert (peeked.waiting, peeked.oldest_arr_us, peeked.now_us) == (3, arrived, clock.now)
    assert (await lanes.peek(["m"])).oldest_arr_us == arrived + 3_000_000
    depths = await lanes.depths()
    assert {lane: depth.waiting for lane, depth in depths.items()} == {
        "thinking": 0,
        "fast": 1,
        "normal": 0,
        "slow": 1,
        "background": 1,
    }
    assert depths["background"].oldest_wait_us == 4_000_000


async def test_the_place_in_the_queue(lanes: Lanes) -> None:
    await ready(lanes)
    for i, lane in enumerate(("slow", "fast", "background")):
        await lanes.submit(job(lane, lane=lane, offset_us=10 - i))
    assert (await lanes.place("slow")).ahead == 1
    place = await lanes.place("fast")
    assert (place.state, place.ahead, place.lane, place.backend) == ("waiting", 0, "fast", "")
    assert (await lanes.place("none")).state == "gone"
    await pull(lanes)
    assert (await lanes.place("fast")).backend == "b"


async def test_taken_back_it_keeps_its_place(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    clock.forward(5)
    await lanes.submit(job("b", user="other"))
    await lanes.release("a", granted.fence, 1, why="drain")
    assert await ids(lanes, 2) == ["a", "b"]
