"""release."""

from __future__ import annotations

from dataclasses import replace

from buffer.job import End
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import give_back, ids_in, letters, restored, state, taken_over
from tests.buffer.jobs import chunk, kinds, pull, ready, record, running


@guard("release", "not j or j.fence < fence", "j and j.fence < fence")
async def test_release_of_a_job_without_a_record(lanes: Lanes) -> None:
    assert await give_back(lanes, replace(await running(lanes), id="none")) == "orphan"


@guard("release", "not j or j.fence < fence", "not j")
async def test_release_above_the_records_fence(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await give_back(lanes, replace(granted, fence=granted.fence + 1)) == "orphan"
    assert await state(lanes) == "running"


@guard("release", "if j.st ~= 'running' then", "if false then")
async def test_release_twice_puts_back_once(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await give_back(lanes, granted, "error") == "waiting"
    assert await give_back(lanes, granted, "error") == "lost"
    assert (await record(lanes, "a"))["fails"] == "1"


@guard("release", "if j.fence > fence then", "if false then")
async def test_release_below_the_records_fence_is_lost(lanes: Lanes) -> None:
    first, _ = await taken_over(lanes)
    assert await give_back(lanes, first) == "lost"
    assert await state(lanes) == "running"


@guard("release", "math.max(tonumber(ARGV[4]), j.n + 1)", "tonumber(ARGV[4])")
async def test_release_marks_its_place_behind_what_was_appended(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a", "b", "c")])
    await give_back(lanes, granted, n=2)
    assert (await kinds(lanes, "a"))[-1] == (f"{granted.fence}-4", "again")


@guard("release", "if why == 'error' then", "if true then")
async def test_what_was_drained_or_passed_by_has_not_failed(lanes: Lanes) -> None:
    for why in ("drain", "passed"):
        granted = await running(lanes) if why == "drain" else (await pull(lanes)).jobs[0]
        assert await give_back(lanes, granted, why) == "waiting"
    assert (await record(lanes, "a"))["fails"] == "0"


@guard("release", "if why == 'error' then", "if false then")
async def test_errors_use_up_the_attempts(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await give_back(lanes, granted, "error", max_attempts=2) == "waiting"
    (again,) = (await pull(lanes)).jobs
    assert await give_back(lanes, again, "error", max_attempts=2) == "ended"
    assert await letters(lanes) == ["attempts used up"]


@guard("release", "fails > j.fails and fails >= tonumber(ARGV[9])", "fails >= tonumber(ARGV[9])")
async def test_a_drain_does_not_end_a_job_of_many_failures(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted, "error", max_attempts=2)
    (again,) = (await pull(lanes)).jobs
    assert await give_back(lanes, again, max_attempts=1) == "waiting"


@guard("release", "if j.cancel ~= '' then", "if false then")
async def test_a_cancelled_job_does_not_go_back(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.cancel("a", "failed", End("failed"))
    assert await give_back(lanes, granted) == "ended"
    assert (await kinds(lanes, "a"))[-1][1] == "failed"


@guard("release", "if leave > 0 then", "if true then")
async def test_a_back_end_that_left_a_job_to_others_does_so_still_when_one_of_them_drains(lanes: Lanes) -> None:
    await ready(lanes)
    first = await running(lanes)
    await give_back(lanes, first, "error", leave_s=2.0)
    (elsewhere,) = (await pull(lanes, backend="other")).jobs
    await give_back(lanes, elsewhere)
    assert (await pull(lanes)).jobs == []


@guard("release", "out(j)\nlocal leave", "local leave")
async def test_release_frees_its_place(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted)
    assert await ids_in(lanes, "lease") == await ids_in(lanes, "load:b") == []


@guard("release", "heir(j.key, ARGV[3], int(j.fence)) and 'orphan' or 'lost'", "'lost'")
async def test_release_by_whom_the_restored_job_waits_for_is_an_orphans(lanes: Lanes) -> None:
    assert await give_back(lanes, await restored(lanes)) == "orphan"


@guard("release", "  j.kept = j.det\n", "")
async def test_a_detached_job_whose_attempts_are_used_up_keeps_what_was_asked(lanes: Lanes) -> None:
    granted = await running(lanes, det=True)
    await give_back(lanes, granted, "error", max_attempts=1)
    assert "body" in await record(lanes, "a")


@guard("release", "  j.kept = j.det\n", "  j.kept = true\n")
async def test_another_does_not(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted, "error", max_attempts=1)
    assert "body" not in await record(lanes, "a")
