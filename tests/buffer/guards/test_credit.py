"""pull: what fits a back end."""

from __future__ import annotations

from typing import Any

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.jobs import Clock, ids, job, ready, running

FULL = "load.kv + need.kv > kv_room"
ONE_LONG = Limits(slots=9, long=1)
KEPT = Limits(slots=2, reserved_slots=1)
MAY = "may(j, need) and not sending.waits_behind(j.lane, need.prefill)"
HERE = f"    if {MAY} then\n      grant(j)\n    else\n      "


async def _then(lanes: Lanes, first: dict[str, Any], second: dict[str, Any], **limits: int) -> bool:
    """Whether ``second`` is granted beside ``first``."""
    await ready(lanes)
    nothing = {"kv": 0, "prefill": 0, "lane": "normal"}
    await running(lanes, "first", **{**nothing, **first})
    await lanes.submit(job("second", **{**nothing, **second}))
    return await ids(lanes, limits=Limits(**{"slots": 9, **limits})) == ["second"]


@guard("_credit", "math.max(1, credit.slots - credit.reserved)", "credit.slots")
async def test_a_reserved_slot_is_kept_free(lanes: Lanes) -> None:
    assert not await _then(lanes, {}, {}, slots=2, reserved_slots=1)


@guard("_credit", "first and credit.slots or math.max", "math.max")
async def test_it_is_there_for_short_jobs(lanes: Lanes) -> None:
    assert await _then(lanes, {}, {"lane": "fast"}, slots=2, reserved_slots=1)


@guard("_flight", "lane == 'fast' or lane == 'thinking'", "lane == 'fast'")
async def test_it_is_there_for_thinking(lanes: Lanes) -> None:
    assert await _then(lanes, {}, {"lane": "thinking"}, slots=2, reserved_slots=1)


@guard("_credit", "math.max(1, credit.slots - credit.reserved)", "credit.slots - credit.reserved")
async def test_not_all_slots_can_be_reserved(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", lane="slow"))
    assert await ids(lanes, limits=Limits(slots=1, reserved_slots=1)) == ["a"]


@guard("_credit", FULL, "false")
async def test_the_kv_credit_is_kept(lanes: Lanes) -> None:
    assert not await _then(lanes, {"kv": 50}, {"kv": 51}, kv=100)


@guard("_credit", FULL, "load.kv + need.kv >= kv_room")
async def test_the_kv_credit_may_be_used_whole(lanes: Lanes) -> None:
    assert await _then(lanes, {"kv": 50}, {"kv": 50}, kv=100)


@guard("_credit", "if credit.kv > 0 and need.kv", "if need.kv")
async def test_without_a_kv_limit_all_fit(lanes: Lanes) -> None:
    assert await _then(lanes, {"kv": 50}, {"kv": 51})


@guard("_credit", "need.kv > 0 and load.kv", "load.kv")
async def test_a_job_that_takes_no_kv_fits_beside_a_too_large_one(lanes: Lanes) -> None:
    assert await _then(lanes, {"kv": 150}, {"kv": 0}, kv=100)


@guard("_credit", "load.kv > 0 and ", "")
async def test_a_job_larger_than_the_kv_credit_runs_alone(lanes: Lanes) -> None:
    assert await _then(lanes, {}, {"kv": 150}, kv=100)


@guard("_credit", "credit.kv - (first and 0 or credit.kv_reserve)", "credit.kv")
async def test_the_kv_reserve_is_kept_free(lanes: Lanes) -> None:
    assert not await _then(lanes, {"kv": 50}, {"kv": 50}, kv=100, kv_reserve=10)


@guard("_credit", "(first and 0 or credit.kv_reserve)", "credit.kv_reserve")
async def test_the_kv_reserve_is_there_for_short_jobs(lanes: Lanes) -> None:
    assert await _then(lanes, {"kv": 50}, {"kv": 50, "lane": "fast"}, kv=100, kv_reserve=10)


@guard("_credit", "load.long >= credit.long", "false")
async def test_the_limit_of_long_jobs_is_kept(lanes: Lanes) -> None:
    assert not await _then(lanes, {"long": True}, {"long": True}, long=1)


@guard("_credit", "if credit.long > 0 and ", "if ")
async def test_without_a_limit_of_long_jobs_all_fit(lanes: Lanes) -> None:
    assert await _then(lanes, {"long": True}, {"long": True})


@guard("_credit", "need.long > 0 and load.long", "load.long")
async def test_a_short_one_fits_beside_too_many_long_ones(lanes: Lanes) -> None:
    await ready(lanes)
    for id in ("a", "b"):
        await running(lanes, id, long=True)
    await lanes.submit(job("c"))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == ["c"]


@guard("_credit", "load.prefill + need.prefill > credit.prefill", "false")
async def test_the_prefill_credit_is_kept(lanes: Lanes) -> None:
    assert not await _then(lanes, {"prefill": 50}, {"prefill": 51}, prefill=100)


@guard("_credit", "(credit.prefill > 0 and need", "(need")
async def test_without_a_prefill_limit_all_fit(lanes: Lanes) -> None:
    assert await _then(lanes, {"prefill": 50}, {"prefill": 51})


@guard("_sending", "if j.lane == 'fast' then", "if false then")
async def test_the_prefill_credit_does_not_hold_up_short_jobs(lanes: Lanes) -> None:
    assert await _then(lanes, {"prefill": 50}, {"prefill": 51, "lane": "fast"}, prefill=100)


@guard("_credit", "need.prefill > 0 and load.prefill", "load.prefill")
async def test_a_job_without_prefill_fits_beside_a_too_large_one(lanes: Lanes) -> None:
    assert await _then(lanes, {"prefill": 150}, {"prefill": 0}, prefill=100)


@guard("_credit", "load.prefill > 0\n    and ", "true\n    and ")
async def test_a_job_larger_than_the_prefill_credit_runs_alone(lanes: Lanes) -> None:
    assert await _then(lanes, {}, {"prefill": 150}, prefill=100)


@guard("pull", "may(j, need)", "true", where=HERE + "leave")
@guard("pull", " and fits(need, flight.all, credit)\n", "\n")
async def test_what_does_not_fit_stays(lanes: Lanes) -> None:
    assert not await _then(lanes, {"long": True}, {"long": True}, long=1)


@guard("pull", "looked_count >= LOOK or ", "")
async def test_of_many_that_do_not_fit_sixteen_are_looked_at(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "first", long=True)
    for number in range(16):
        await lanes.submit(job(f"large{number}", long=True, model=f"m{number // 4}"))
    await lanes.submit(job("small", model="n", offset_us=1))
    assert await ids(lanes, limits=ONE_LONG, models=[*(f"m{number}" for number in range(4)), "n"]) == []


@guard("_queues", "q.looks < LOOK_LANE and ", "")
@guard("_queues", "q.lane == j.lane then\n      q.looks", "false then\n      q.looks")
async def test_of_one_queue_four_are_looked_at(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "first", long=True)
    for number in range(4):
        await lanes.submit(job(f"large{number}", long=True))
    await lanes.submit(job("small"))
    assert await ids(lanes, limits=ONE_LONG) == []


@guard(
    "_queues", "    if q.model == j.model and q.lane == j.lane then\n      q.looks", "    if true then\n      q.looks"
)
@guard("_queues", " and q.lane == j.lane then\n      q.looks", " then\n      q.looks")
@guard(
    "_queues",
    "if q.model == j.model and q.lane == j.lane then\n      q.looks",
    "if q.lane == j.lane then\n      q.looks",
)
async def test_and_four_of_another(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "first", long=True)
    for number in range(4):
        await lanes.submit(job(f"large{number}", long=True))
    await lanes.submit(job("small", model="n", offset_us=1))
    await lanes.submit(job("slow", lane="slow", offset_us=2))
    assert await ids(lanes, 2, limits=ONE_LONG, models=["m", "n"]) == ["small", "slow"]


@guard("_queues", "  if not looked[id] then\n", "  if true then\n")
async def test_behind_one_that_does_not_fit_the_next_by_score_comes(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "first", long=True)
    await lanes.submit(job("large", long=True))
    await lanes.submit(job("small"))
    assert await ids(lanes, limits=ONE_LONG) == ["small"]


async def _reserved(lanes: Lanes) -> Clock:
    """Somebody waits for the place of two that is kept for short jobs."""
    clock = await ready(lanes)
    await running(lanes, "first")
    await lanes.submit(job("a", lane="normal", max_wait_us=60_000_000))
    return clock


@guard("pull", " and somebody_waited(models) then", " then")
@guard("_queues", "(due - arr) / 4", "0")
async def test_a_place_is_kept_free_while_nobody_waits_long_for_it(lanes: Lanes) -> None:
    clock = await _reserved(lanes)
    clock.forward(15)
    assert await ids(lanes, limits=KEPT) == []


@guard("pull", "and somebody_waited(models) then", "and false then")
@guard("_queues", "return arr and now - arr >", "return arr and false and now - arr >")
async def test_then_it_is_given_up(lanes: Lanes) -> None:
    clock = await _reserved(lanes)
    clock.forward(15.1)
    assert await ids(lanes, limits=KEPT) == ["a"]


@guard("pull", "if credit.kv == 0 and credit.reserved", "if credit.reserved")
async def test_not_where_the_engine_tells_its_memory(lanes: Lanes) -> None:
    clock = await _reserved(lanes)
    clock.forward(15.1)
    assert await ids(lanes, limits=Limits(slots=2, reserved_slots=1, kv=1000)) == []


@guard("_queues", "return arr and now", "return now")
async def test_a_due_without_a_record_is_nobodys_wait(lanes: Lanes) -> None:
    clock = await _reserved(lanes)
    await lanes.store.redis.zadd(lanes.keys.due("m"), {"none": 1})
    clock.forward(1)
    assert await ids(lanes, limits=KEPT) == []
