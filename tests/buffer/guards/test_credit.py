"""pull: what fits a back end."""

from __future__ import annotations

from typing import Any

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.jobs import ids, job, ready, running


async def _then(lanes: Lanes, first: dict[str, Any], second: dict[str, Any], **limits: int) -> bool:
    """Whether ``second`` is granted beside ``first``."""
    await ready(lanes)
    nothing = {"kv": 0, "prefill": 0, "lane": "normal"}
    await running(lanes, "first", **{**nothing, **first})
    await lanes.submit(job("second", **{**nothing, **second}))
    return await ids(lanes, limits=Limits(**{"slots": 9, **limits})) == ["second"]


@guard("pull", "not first_class and slots - used <= reserved", "false")
async def test_a_reserved_slot_is_kept_free(lanes: Lanes) -> None:
    assert not await _then(lanes, {}, {}, slots=2, reserved_slots=1)


@guard("pull", "not first_class and slots - used <= reserved", "slots - used <= reserved")
async def test_it_is_there_for_short_jobs(lanes: Lanes) -> None:
    assert await _then(lanes, {}, {"lane": "fast"}, slots=2, reserved_slots=1)


@guard("pull", "j.lane == 'fast' or j.lane == 'thinking'", "j.lane == 'fast'")
async def test_it_is_there_for_thinking(lanes: Lanes) -> None:
    assert await _then(lanes, {}, {"lane": "thinking"}, slots=2, reserved_slots=1)


@guard("pull", "math.min(tonumber(ARGV[9]), slots - 1)", "tonumber(ARGV[9])")
async def test_not_all_slots_can_be_reserved(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", lane="slow"))
    assert await ids(lanes, limits=Limits(slots=1, reserved_slots=1)) == ["a"]


@guard("pull", "used_kv + j.kv > kv_room", "false")
async def test_the_kv_credit_is_kept(lanes: Lanes) -> None:
    assert not await _then(lanes, {"kv": 50}, {"kv": 51}, kv=100)


@guard("pull", "used_kv + j.kv > kv_room", "used_kv + j.kv >= kv_room")
async def test_the_kv_credit_may_be_used_whole(lanes: Lanes) -> None:
    assert await _then(lanes, {"kv": 50}, {"kv": 50}, kv=100)


@guard("pull", "kv_limit > 0 and ", "")
async def test_without_a_kv_limit_all_fit(lanes: Lanes) -> None:
    assert await _then(lanes, {"kv": 50}, {"kv": 51})


@guard("pull", "j.kv > 0 and ", "")
async def test_a_job_that_takes_no_kv_fits_beside_a_too_large_one(lanes: Lanes) -> None:
    assert await _then(lanes, {"kv": 150}, {"kv": 0}, kv=100)


@guard("pull", "used_kv > 0 and ", "")
async def test_a_job_larger_than_the_kv_credit_runs_alone(lanes: Lanes) -> None:
    assert await _then(lanes, {}, {"kv": 150}, kv=100)


@guard("pull", "kv_limit - (first_class and 0 or kv_reserve)", "kv_limit")
async def test_the_kv_reserve_is_kept_free(lanes: Lanes) -> None:
    assert not await _then(lanes, {"kv": 50}, {"kv": 50}, kv=100, kv_reserve=10)


@guard("pull", "first_class and 0 or kv_reserve", "kv_reserve")
async def test_the_kv_reserve_is_there_for_short_jobs(lanes: Lanes) -> None:
    assert await _then(lanes, {"kv": 50}, {"kv": 50, "lane": "fast"}, kv=100, kv_reserve=10)


@guard("pull", "used_long + j.long > long_limit", "false")
async def test_the_limit_of_long_jobs_is_kept(lanes: Lanes) -> None:
    assert not await _then(lanes, {"long": True}, {"long": True}, long=1)


@guard("pull", "long_limit > 0 and ", "")
async def test_without_a_limit_of_long_jobs_all_fit(lanes: Lanes) -> None:
    assert await _then(lanes, {"long": True}, {"long": True})


@guard("pull", "j.long > 0 and ", "")
async def test_a_short_one_fits_beside_too_many_long_ones(lanes: Lanes) -> None:
    await ready(lanes)
    for id in ("a", "b"):
        await running(lanes, id, long=True)
    await lanes.submit(job("c"))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == ["c"]


@guard("pull", "used_prefill + j.prefill > prefill_limit", "false")
async def test_the_prefill_credit_is_kept(lanes: Lanes) -> None:
    assert not await _then(lanes, {"prefill": 50}, {"prefill": 51}, prefill=100)


@guard("pull", "prefill_limit > 0 and ", "")
async def test_without_a_prefill_limit_all_fit(lanes: Lanes) -> None:
    assert await _then(lanes, {"prefill": 50}, {"prefill": 51})


@guard("pull", "j.lane ~= 'fast' and ", "")
async def test_the_prefill_credit_does_not_hold_up_short_jobs(lanes: Lanes) -> None:
    assert await _then(lanes, {"prefill": 50}, {"prefill": 51, "lane": "fast"}, prefill=100)


@guard("pull", "j.prefill > 0 and ", "")
async def test_a_job_without_prefill_fits_beside_a_too_large_one(lanes: Lanes) -> None:
    assert await _then(lanes, {"prefill": 150}, {"prefill": 0}, prefill=100)


@guard("pull", "used_prefill > 0\n    and ", "true\n    and ")
async def test_a_job_larger_than_the_prefill_credit_runs_alone(lanes: Lanes) -> None:
    assert await _then(lanes, {}, {"prefill": 150}, prefill=100)


@guard("pull", "elseif j and may(j) then", "elseif j then")
@guard("pull", "(barrier and j.arr > barrier) and fits(j)", "(barrier and j.arr > barrier)")
async def test_what_does_not_fit_stays(lanes: Lanes) -> None:
    assert not await _then(lanes, {"long": True}, {"long": True}, long=1)


async def _passed(lanes: Lanes, waits_s: float) -> list[str]:
    """Whoever is granted beside a job that does not fit, which is due after a second."""
    clock = await ready(lanes)
    await running(lanes, "first", long=True)
    await lanes.submit(job("large", long=True, max_wait_us=1_000_000))
    clock.forward(waits_s)
    await lanes.submit(job("small"))
    return await ids(lanes, limits=Limits(slots=9, long=1))


@guard("pull", "not (barrier and j.arr > barrier) and ", "")
async def test_nobody_who_came_after_its_due_passes_a_job_that_does_not_fit(lanes: Lanes) -> None:
    assert await _passed(lanes, 2) == []


@guard("pull", "barrier and j.arr > barrier", "barrier")
async def test_who_came_before_its_due_may_pass_it(lanes: Lanes) -> None:
    assert await _passed(lanes, 0.5) == ["small"]


@guard("pull", "math.min(barrier or j.due, j.due)", "j.due")
async def test_the_lowest_due_of_those_passed_counts(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "first", long=True)
    await lanes.submit(job("large", long=True, max_wait_us=1_000_000))
    await lanes.submit(job("larger", long=True, max_wait_us=9_000_000, lane="slow", offset_us=1))
    clock.forward(2)
    await lanes.submit(job("small"))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == []


@guard("pull", "if j.due > 0 then", "if true then")
async def test_a_background_job_that_does_not_fit_holds_up_nobody(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "first", long=True)
    await lanes.submit(job("large", long=True, lane="background"))
    clock.forward(1)
    await lanes.submit(job("small", lane="background"))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == ["small"]


@guard("pull", "looked_count < LOOK and ", "")
async def test_of_many_that_do_not_fit_sixteen_are_looked_at(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "first", long=True)
    for number in range(16):
        await lanes.submit(job(f"large{number}", long=True))
    await lanes.submit(job("small"))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == []


@guard("pull", "if c and looked[c.id] then", "if false then")
async def test_behind_one_that_does_not_fit_the_next_by_score_comes(lanes: Lanes) -> None:
    assert await _passed(lanes, 0.5) == ["small"]
