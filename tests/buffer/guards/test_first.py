"""pull: who goes first whatever the scores say."""

from __future__ import annotations

from typing import Any

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.jobs import ids, job, pull, ready, running

MEMORY = Limits(slots=9, kv=1000)
HALF = "short.jobs + 1 > math.floor(credit.slots * SHORT_SHARE)"
JUMPS = "jumps = short and may_go_first(need_of(short), flight.short, credit)"


async def _older(lanes: Lanes, *shorts: dict[str, Any], **fields: Any) -> None:
    """One that has waited for longer, and then some of short lanes."""
    clock = await ready(lanes)
    await lanes.submit(job("older", lane="normal", **fields))
    for number, more in enumerate(shorts):
        clock.forward(1)
        await lanes.submit(job(f"s{number}", offset_us=5_000_000, user=f"s{number}", **more))


@guard("pull", JUMPS, "jumps = false")
@guard("_queues", "open(q, quiet, short)", "open(q, quiet)", where="    if open(q, quiet, short) then\n      local top")
async def test_a_short_job_goes_before_who_has_waited_for_longer(lanes: Lanes) -> None:
    await _older(lanes, {})
    assert await ids(lanes, limits=Limits(slots=2)) == ["s0"]


@guard("_credit", HALF, "false")
@guard("_flight", "if first_class(one.lane) then\n      add", "if false then\n      add")
async def test_only_for_half_of_the_places(lanes: Lanes) -> None:
    await _older(lanes, {}, {})
    assert await ids(lanes, 2, limits=Limits(slots=3)) == ["s0", "older"]


@guard("_credit", "short.kv + need.kv <= credit.kv * SHORT_SHARE", "true")
async def test_and_only_for_half_of_the_memory(lanes: Lanes) -> None:
    await _older(lanes, {"kv": 300}, {"kv": 201})
    assert await ids(lanes, 2, limits=MEMORY) == ["s0", "older"]


@guard("_credit", "short.kv + need.kv <= credit.kv", "short.kv + need.kv < credit.kv")
async def test_half_may_be_used_whole(lanes: Lanes) -> None:
    await _older(lanes, {"kv": 300}, {"kv": 200})
    assert await ids(lanes, 2, limits=MEMORY) == ["s0", "s1"]


@guard("_credit", "return credit.kv == 0 or short.kv", "return short.kv")
async def test_where_memory_is_not_told_half_of_the_places_count(lanes: Lanes) -> None:
    await _older(lanes, {"kv": 200})
    assert await ids(lanes, limits=Limits(slots=9)) == ["s0"]


@guard("_flight", "if first_class(one.lane) then\n      add", "if true then\n      add")
async def test_what_others_have_is_not_counted(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "first", lane="slow")
    clock.forward(1)
    await lanes.submit(job("older", lane="normal"))
    clock.forward(1)
    await lanes.submit(job("short", offset_us=5_000_000))
    assert await ids(lanes, limits=Limits(slots=3)) == ["short"]


@guard("pull", "if not first or (short and not jumps", "if not first or (not jumps")
async def test_one_that_expires_at_the_head_of_a_short_lane_ends_once(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=1000))
    clock.forward(1)
    await ids(lanes)
    assert (await lanes.place("a")).state == "done"


@guard("pull", "if not first or (short and not jumps and short.id ~= c.id) then", "if not first then")
async def test_where_it_may_not_the_lowest_score_goes(lanes: Lanes) -> None:
    await _older(lanes, {})
    assert await ids(lanes, limits=Limits(slots=1)) == ["older"]


@guard("pull", "due_looks < LOOK_LANE and ", "")
async def test_of_those_that_waited_for_too_long_four_are_looked_at(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "first", long=True)
    for number in range(16):
        await lanes.submit(job(f"large{number}", lane="slow", long=True, max_wait_us=1_000_000))
    clock.forward(2)
    await lanes.submit(job("small"))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == ["small"]


@guard("pull", "by_due, jumps = 1, false", "by_due, jumps, due_looks = 0, false, due_looks + 1")
async def test_those_that_fit_are_not_counted(lanes: Lanes) -> None:
    clock = await ready(lanes)
    for number in range(6):
        await lanes.submit(job(f"due{number}", lane="slow", max_wait_us=1_000_000))
    clock.forward(2)
    await lanes.submit(job("late"))
    assert await ids(lanes, 6) == [f"due{number}" for number in range(6)]


@guard("pull", "if not c then\n    return", "if false then\n    return")
async def test_where_nobody_waits_nothing_is_granted(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await pull(lanes)).jobs == []
