"""pull: what a back end may carry over all workers."""

from __future__ import annotations

from buffer.job import LANES, End
from buffer.lanes import Lanes
from buffer.records import Limits, Piece
from tests.buffer.jobs import (
    ids,
    job,
    pull,
    ready,
    running,
)

W = 60_000_000


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


async def test_what_passes_a_job_that_waited_and_does_not_fit_leaves_its_room_alone(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=10, kv=100)
    await lanes.submit(job("a", kv=60))
    assert await ids(lanes, limits=limits) == ["a"]
    await lanes.submit(job("big", kv=80, lane="slow", max_wait_us=10_000_000))
    clock.forward(10)
    await lanes.submit(job("in time", kv=5))
    clock.forward(0.000001)
    for id, kv in (("first", 15), ("second", 6), ("third", 5)):
        await lanes.submit(job(id, kv=kv))
    assert await ids(lanes, 10, limits=limits) == ["in time", "first", "third"]


async def test_a_job_that_waits_for_prefill_alone_holds_up_nobody(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=10, kv=100, prefill=100)
    await lanes.submit(job("a", prefill=80, lane="normal", kv=0))
    assert await ids(lanes, limits=limits) == ["a"]
    await lanes.submit(job("due", prefill=30, lane="slow", kv=90, max_wait_us=10_000_000))
    clock.forward(11)
    await lanes.submit(job("late", prefill=20, lane="normal", kv=50))
    assert await ids(lanes, 10, limits=limits) == ["late"]


async def test_short_lanes_go_first_for_half_of_the_places(lanes: Lanes) -> None:
    clock = await ready(lanes)
    for i in range(4):
        await lanes.submit(job(f"n{i}", lane="normal", user=f"n{i}"))
    clock.forward(1)
    for i in range(4):
        await lanes.submit(job(f"f{i}", lane=("fast", "thinking")[i % 2], user=f"f{i}", offset_us=2_000_000))
        clock.forward(0.1)
    assert await ids(lanes, 4, limits=Limits(slots=5)) == ["f0", "f1", "n0", "n1"]


async def test_short_lanes_go_first_for_half_of_the_memory(lanes: Lanes) -> None:
    clock = await ready(lanes)
    for i in range(2):
        await lanes.submit(job(f"n{i}", lane="normal", user=f"n{i}", kv=20))
    clock.forward(1)
    for i in range(3):
        await lanes.submit(job(f"f{i}", user=f"f{i}", kv=25))
    assert await ids(lanes, 9, limits=Limits(slots=20, kv=100)) == ["f0", "f1", "n0", "n1"]


async def test_a_place_kept_for_short_jobs_is_given_up_once_somebody_has_waited(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("n", lane="normal", max_wait_us=60_000_000))
    await running(lanes, "first", lane="fast")
    places = Limits(slots=2, reserved_slots=1)
    clock.forward(15)
    assert await ids(lanes, limits=places) == []
    clock.forward(0.000001)
    assert await ids(lanes, limits=Limits(slots=2, reserved_slots=1, kv=100)) == []
    assert await ids(lanes, limits=places) == ["n"]


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
    assert [one.id for one in granted] == ["f", "a"]
    assert await ids(lanes, 3, limits=limits) == []
    pairs = [Piece(one.id, one.fence, 0) for one in granted]
    assert await lanes.prefilled([*pairs, Piece("a", 1, 0), Piece("none", 1, 0)]) == 2
    assert await lanes.prefilled(pairs) == 0
    assert (await lanes.load("b")).prefill == 0
    assert await ids(lanes, 3, limits=limits) == ["b"]


async def test_no_more_than_sixteen_are_looked_at(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=100, kv=100)
    await lanes.submit(job("a", kv=60))
    assert await ids(lanes, limits=limits) == ["a"]
    for i in range(16):
        await lanes.submit(job(f"big{i}", kv=60, user=f"u{i}", lane=LANES[i % 4]))
    clock.forward(1)
    await lanes.submit(job("small", kv=1, user="s", model="n"))
    assert await ids(lanes, limits=limits, models=["m", "n"]) == []
    await lanes.cancel("big0")
    assert await ids(lanes, limits=limits, models=["m", "n"]) == ["small"]


async def test_of_one_queue_four_are_looked_at(lanes: Lanes) -> None:
    clock = await ready(lanes)
    limits = Limits(slots=100, kv=100)
    await lanes.submit(job("a", kv=60))
    assert await ids(lanes, limits=limits) == ["a"]
    for i in range(4):
        await lanes.submit(job(f"big{i}", kv=60, user=f"u{i}"))
    clock.forward(1)
    await lanes.submit(job("behind", kv=1, user="s"))
    await lanes.submit(job("another", kv=1, user="s", lane="slow"))
    assert await ids(lanes, 2, limits=limits) == ["another"]
    await lanes.cancel("big0")
    assert await ids(lanes, 2, limits=limits) == ["behind"]
