"""pull: who may pass one that has waited for too long and does not fit."""

from __future__ import annotations

from typing import Any

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.jobs import Clock, ids, job, ready, running

MEMORY = Limits(slots=9, kv=1000)
RESERVE = Limits(slots=9, kv=1000, kv_reserve=40)
BARRED = "(not barrier or j.arr <= barrier or may_pass(need, barred, flight.some(barrier), credit))"
PLACES = "if younger.jobs + 1 > places - (first_class(barred.lane) and 0 or credit.reserved) then"


async def _passes(
    lanes: Lanes, small: dict[str, Any], *, barred: dict[str, Any], limits: Limits = MEMORY, waits_s: float = 2
) -> bool:
    """Whether ``small`` goes before one that is due after a second and does not fit beside what runs."""
    clock = await ready(lanes)
    await running(lanes, "first", kv=300, long=True)
    await lanes.submit(job("large", **{"lane": "normal", "max_wait_us": 1_000_000, **barred}))
    clock.forward(waits_s)
    await lanes.submit(job("small", **small))
    return await ids(lanes, limits=limits) == ["small"]


@guard("pull", BARRED, "true")
@guard("_credit", "return younger.kv + need.kv <= room", "return true or younger.kv + need.kv <= room")
async def test_nobody_passes_who_leaves_it_too_little_room(lanes: Lanes) -> None:
    assert not await _passes(lanes, {"kv": 201}, barred={"kv": 800})


@guard("pull", " or may_pass(need, barred, flight.some(barrier), credit)", "")
@guard("_credit", "younger.kv + need.kv <= room", "younger.kv + need.kv < room")
@guard("_flight", "if one.arr > after then", "if true then")
async def test_who_leaves_it_its_room_does(lanes: Lanes) -> None:
    assert await _passes(lanes, {"kv": 200}, barred={"kv": 800})


@guard("pull", "not barrier or j.arr <= barrier or ", "not barrier or ")
async def test_who_came_before_its_due_does(lanes: Lanes) -> None:
    assert await _passes(lanes, {"kv": 201}, barred={"kv": 800}, waits_s=0.5)


@guard("_credit", "credit.kv - credit.kv_reserve - barred.kv", "credit.kv - barred.kv")
async def test_the_reserve_is_left_to_it_too(lanes: Lanes) -> None:
    assert not await _passes(lanes, {"kv": 161}, barred={"kv": 800}, limits=RESERVE)


@guard("_credit", "(first and 0 or credit.kv_reserve / 2)", "0")
async def test_half_of_the_reserve_is_left_to_short_jobs_that_pass(lanes: Lanes) -> None:
    assert not await _passes(lanes, {"kv": 141, "lane": "slow"}, barred={"kv": 800}, limits=RESERVE)


@guard("_credit", "first and 0 or credit.kv_reserve / 2", "credit.kv_reserve / 2")
async def test_they_may_have_that(lanes: Lanes) -> None:
    assert await _passes(lanes, {"kv": 160}, barred={"kv": 800}, limits=RESERVE)


@guard("_credit", "  if credit.kv == 0 or need.kv == 0 then", "  if credit.kv == 0 then")
async def test_who_takes_no_memory_passes_one_larger_than_all(lanes: Lanes) -> None:
    assert await _passes(lanes, {"kv": 0}, barred={"kv": 1200})


@guard("_credit", "  if credit.kv == 0 or need.kv == 0 then", "  if need.kv == 0 then")
async def test_where_memory_is_not_told_all_that_counts_is_places(lanes: Lanes) -> None:
    limits = Limits(slots=9, long=1)
    assert await _passes(lanes, {"kv": 10}, barred={"kv": 800, "long": True}, limits=limits)


@guard("_credit", "if need.long > 0 and barred.long > 0 then", "if false then")
async def test_no_long_one_passes_a_long_one(lanes: Lanes) -> None:
    assert not await _passes(lanes, {"kv": 1, "long": True}, barred={"kv": 800, "long": True})


@guard("_credit", "need.long > 0 and barred.long", "barred.long")
async def test_a_short_one_passes_a_long_one(lanes: Lanes) -> None:
    assert await _passes(lanes, {"kv": 1}, barred={"kv": 800, "long": True})


@guard("_credit", "if need.long > 0 and barred.long > 0 then", "if need.long > 0 then")
async def test_a_long_one_passes_a_short_one(lanes: Lanes) -> None:
    assert await _passes(lanes, {"kv": 1, "long": True}, barred={"kv": 800})


async def _younger(lanes: Lanes, count: int, *, lane: str, barred: str, **limits: int) -> bool:
    """Whether one of ``lane`` goes too where ``count`` that came as late run, and nothing else."""
    clock = await ready(lanes)
    await lanes.submit(job("large", lane=barred, long=True, max_wait_us=1_000_000, model="n", kv=0))
    clock.forward(2)
    for number in range(count):
        await running(lanes, f"y{number}", long=True, kv=0)
    await lanes.submit(job("last", lane=lane, kv=0))
    limit = Limits(**{"long": 1, "kv": 1000, **limits})
    return await ids(lanes, limits=limit, models=["m", "n"]) == ["last"]


@guard("_credit", PLACES, "if false then")
async def test_a_place_is_left_to_it(lanes: Lanes) -> None:
    assert not await _younger(lanes, 3, lane="fast", barred="thinking", slots=4)


@guard("_credit", "younger.jobs + 1 > places", "younger.jobs + 1 >= places")
@guard("_credit", "(first_class(barred.lane) and 0 or credit.reserved)", "credit.reserved")
async def test_all_but_that_may_be_had(lanes: Lanes) -> None:
    assert await _younger(lanes, 3, lane="fast", barred="thinking", slots=5, reserved_slots=1)


@guard("_credit", "(first_class(barred.lane) and 0 or credit.reserved)", "0")
async def test_and_the_places_that_it_may_not_have(lanes: Lanes) -> None:
    assert not await _younger(lanes, 3, lane="fast", barred="slow", slots=5, reserved_slots=1)


@guard("_credit", "first and credit.slots - 1 or credit.slots - 1 - 2 * credit.reserved", "credit.slots - 1")
async def test_other_lanes_leave_room_for_short_jobs_that_pass(lanes: Lanes) -> None:
    assert not await _younger(lanes, 2, lane="slow", barred="thinking", slots=5, reserved_slots=1)


async def _two(lanes: Lanes, first: dict[str, Any], second: dict[str, Any]) -> Clock:
    clock = await ready(lanes)
    await running(lanes, "runs", kv=300, prefill=80, lane="normal")
    for name, fields in (("first", first), ("second", second)):
        await lanes.submit(job(name, **{"lane": "slow", "prefill": 0, **fields}))
    clock.forward(2)
    return clock


@guard("pull", "  need.prefill = 0\n", "")
@guard("pull", "  if fits(need, flight.all, credit) then", "  if false then")
async def test_one_that_waits_for_prefill_alone_bars_nobody(lanes: Lanes) -> None:
    await _two(lanes, {"prefill": 50, "long": True, "max_wait_us": 1_000_000}, {})
    await lanes.submit(job("long", lane="normal", prefill=0, long=True))
    assert "long" in await ids(lanes, 9, limits=Limits(slots=9, prefill=100))


@guard("pull", "elseif j.due > 0 and ", "elseif ")
async def test_a_background_job_that_does_not_fit_bars_nobody(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "runs", kv=300)
    await lanes.submit(job("large", kv=800, long=True, lane="background"))
    clock.forward(1)
    await lanes.submit(job("small", kv=100, long=True, lane="background"))
    assert await ids(lanes, limits=MEMORY) == ["small"]


@guard("pull", "(not barrier or j.due < barrier)", "true")
async def test_the_lowest_due_of_those_that_do_not_fit_counts(lanes: Lanes) -> None:
    large = {"kv": 800, "long": True}
    await _two(lanes, {**large, "max_wait_us": 1_000_000}, {**large, "max_wait_us": 9_000_000, "offset_us": 1})
    await lanes.submit(job("small", long=True, lane="slow", offset_us=2))
    assert await ids(lanes, limits=MEMORY) == []
