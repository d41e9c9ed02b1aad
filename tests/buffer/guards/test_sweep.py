"""reap: what is left over."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.outcomes import Reaped
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import change, ids_in, length, letters, pass_by, swept
from tests.buffer.jobs import LEASE_S, ids, job

NOTHING = Reaped(0, 0, 0, 0)


@guard("reap", "not v[1] or v[1] == 'done' or v[2] ~= entry[1]", "v[1] and v[1] == 'done'")
async def test_an_entry_without_a_job_is_swept_away(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.delete(lanes.keys.job("a"))
    await pass_by(lanes, clock, 1)
    assert await length(lanes, "jobs:fast") == 0
    assert await letters(lanes) == ["left over"]


@guard("reap", " or v[1] == 'done'", "")
async def test_an_entry_of_an_ended_job_is_swept_away(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await lanes.submit(job("a"))
    await lanes.cancel("a")
    entry = await lanes.store.redis.xadd(lanes.keys.jobs("fast"), {"id": "a", "model": "m"})
    await change(lanes, "a", entry=entry)
    await pass_by(lanes, clock, 1)
    assert await length(lanes, "jobs:fast") == 0


@guard("reap", " or v[2] ~= entry[1]", "")
async def test_a_second_entry_of_a_job_is_swept_away(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.xadd(lanes.keys.jobs("fast"), {"id": "a", "model": "m"})
    await pass_by(lanes, clock, 1)
    assert await length(lanes, "jobs:fast") == 1


@guard("reap", "      if not v[1] then\n", "      if true then\n")
async def test_the_place_of_an_open_job_is_not_swept_away(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.xadd(lanes.keys.jobs("fast"), {"id": "a", "model": "m"})
    await pass_by(lanes, clock, 1)
    assert await ids(lanes) == ["a"]


@guard("reap", "      if not v[1] then\n", "      if false then\n")
async def test_the_place_of_a_job_without_a_record_is_swept_away(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.delete(lanes.keys.job("a"))
    await pass_by(lanes, clock, 1)
    for name in ("wait:m:fast", "turn:m:fast", "due:m"):
        assert await ids_in(lanes, name) == []


@guard("reap", "if score then", "if true then")
async def test_garbage_among_the_entries_stops_nothing(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await lanes.store.redis.xadd(lanes.keys.jobs("fast"), {"garbage": "x"})
    await pass_by(lanes, clock, 1)
    assert await length(lanes, "jobs:fast") == 0


@guard("reap", "if #entries == ENTRIES then", "if false then")
async def test_behind_many_entries_the_last_is_reached(lanes: Lanes) -> None:
    clock = await swept(lanes)
    for number in range(9):
        await lanes.submit(job(f"j{number}"))
    await lanes.store.redis.delete(lanes.keys.job("j8"))
    await pass_by(lanes, clock, LEASE_S)
    assert await length(lanes, "jobs:fast") == 8


@guard("reap", "  elseif from then\n", "  elseif false then\n")
async def test_after_the_last_entry_it_begins_with_the_first(lanes: Lanes) -> None:
    clock = await swept(lanes)
    for number in range(9):
        await lanes.submit(job(f"j{number}"))
    await pass_by(lanes, clock, LEASE_S)
    await lanes.store.redis.delete(lanes.keys.job("j0"))
    await pass_by(lanes, clock, LEASE_S)
    assert await length(lanes, "jobs:fast") == 8
