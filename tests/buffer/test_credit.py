"""pull: what a back end may carry over all workers."""

from __future__ import annotations

from buffer.job import End
from buffer.lanes import Lanes
from buffer.records import Limits, Piece
from tests.buffer.jobs import (
    ids,
    job,
    pull,
    ready,
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
        await lanes.submit(job(f"big{i}", kv=60, user=f"u{i}"))
    clock.forward(1)
    await lanes.submit(job("small", kv=1, user="s"))
    assert await ids(lanes, limits=limits) == []
    await lanes.cancel("big0")
    assert await ids(lanes, limits=limits) == ["small"]
