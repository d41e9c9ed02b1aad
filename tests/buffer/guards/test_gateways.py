"""requeue, cancel, signal, watch, create, place."""

from __future__ import annotations

from buffer.job import End
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import (
    change,
    give_back,
    ids_in,
    length,
    lifetime,
    requeue,
    state,
    taken_over,
)
from tests.buffer.jobs import INBOX, job, kinds, ready, record, running


@guard("requeue", "if not j then", "if false then")
async def test_requeue_of_a_job_without_a_record(lanes: Lanes) -> None:
    assert (await requeue(lanes, 1, id="none")).status == "gone"


@guard("requeue", "j.st == 'done' or ", "")
async def test_requeue_of_an_ended_job_leaves_it(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("done"))
    assert (await requeue(lanes, granted.fence)).status == "done"
    assert await state(lanes) == "done"


@guard("requeue", "or j.fence ~= tonumber(ARGV[3])", "")
async def test_requeue_by_who_knows_an_older_fence_leaves_it(lanes: Lanes) -> None:
    first, second = await taken_over(lanes)
    got = await requeue(lanes, first.fence)
    assert (got.status, got.fence) == ("running", second.fence)
    assert await state(lanes) == "running"


@guard("requeue", "local freed = out(j)", "local freed = 0")
async def test_requeue_frees_the_place_of_a_running_job(lanes: Lanes) -> None:
    granted = await running(lanes)
    await requeue(lanes, granted.fence)
    assert await ids_in(lanes, "lease") == await ids_in(lanes, "load:b") == []


@guard("requeue", "raise(j)\n", "")
async def test_requeue_raises_the_fence_and_marks_it(lanes: Lanes) -> None:
    granted = await running(lanes)
    got = await requeue(lanes, granted.fence)
    assert got.fence > granted.fence
    assert (await kinds(lanes, "a"))[-1] == (f"{got.fence}-0", "snap")


@guard("requeue", "if freed > 0 then", "if true then")
async def test_requeue_of_a_waiting_job_rings_no_bell(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    await requeue(lanes, 0)
    assert await length(lanes, "bell") == 0


@guard("requeue", "if freed > 0 then", "if false then")
async def test_requeue_of_a_running_job_rings_the_bell(lanes: Lanes) -> None:
    await requeue(lanes, (await running(lanes)).fence)
    assert await length(lanes, "bell") == 1


@guard("cancel", "if not j then", "if false then")
async def test_cancel_of_a_job_without_a_record(lanes: Lanes) -> None:
    assert await lanes.cancel("none") == "gone"


@guard("cancel", "if j.st == 'done' then", "if false then")
async def test_cancel_of_an_ended_job_adds_no_end(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("done"))
    assert await lanes.cancel("a") == "done"
    assert [kind for _, kind in await kinds(lanes, "a")][-2:] == ["start", "done"]


@guard("cancel", "if j.st ~= 'running' then", "if true then")
async def test_cancel_of_a_running_job_is_left_to_its_worker(lanes: Lanes) -> None:
    await running(lanes)
    assert await lanes.cancel("a") == "running"
    assert await ids_in(lanes, "load:b") == ["a"], "its engine works until the worker has closed the connection"


@guard("cancel", "if j.st ~= 'running' then", "if false then")
async def test_cancel_of_a_waiting_job_ends_it(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    assert await lanes.cancel("a") == "cancelled"
    assert await state(lanes) == "done"


@guard("cancel", "  raise(j)\n", "")
async def test_cancel_raises_the_fence_and_marks_it(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    await lanes.cancel("a")
    fence = int((await record(lanes, "a"))["fence"])
    assert fence > 0
    assert (await kinds(lanes, "a"))[-1] == (f"{fence}-1", "cancelled")


@guard("cancel", "if j.cancel == '' then", "if true then")
async def test_cancel_again_is_not_said_again(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.renew("w", [], 15.0)
    await lanes.cancel("a", "expired")
    await lanes.cancel("a")
    assert await length(lanes, "ctl:w") == 2, "its first entry, and one cancel"
    assert (await record(lanes, "a"))["cancel"] == "expired"


@guard("cancel", "'NOMKSTREAM', ", "")
async def test_cancel_makes_no_stream_for_a_worker_that_is_gone(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.cancel("a")
    assert await lifetime(lanes, "ctl:w") == -2


@guard("signal", "not j or ", "")
async def test_nobody_hears_word_of_a_job_without_a_record(lanes: Lanes) -> None:
    assert not await lanes.signal("none", "pause")


@guard("signal", " or j.st ~= 'running'", "")
async def test_nobody_hears_word_of_a_job_given_back(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.renew("w", [], 15.0)
    await give_back(lanes, granted)
    assert not await lanes.signal("a", "pause")


@guard("signal", "'NOMKSTREAM', ", "")
async def test_word_makes_no_stream_for_a_worker_that_is_gone(lanes: Lanes) -> None:
    await running(lanes)
    assert not await lanes.signal("a", "pause")
    assert await lifetime(lanes, "ctl:w") == -2


@guard("create", "if call('EXPIRE', key, 15) == 1 then", "if false then")
async def test_an_inbox_is_made_once(lanes: Lanes) -> None:
    assert [await lanes.create_inbox(INBOX) for _ in range(2)] == [True, False]
    assert await length(lanes, f"inbox:{INBOX}") == 1


@guard("place", "if not j then", "if false then")
async def test_a_job_without_a_record_has_no_place(lanes: Lanes) -> None:
    assert (await lanes.place("none")).state == "gone"


@guard("place", "if j.st == 'waiting' then", "if true then")
async def test_nobody_is_ahead_of_a_running_job(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("first", user="v"))
    clock.forward(1)
    await running(lanes, "second", offset_us=-2_000_000)
    await change(lanes, "second", score=clock.now + 5_000_000)
    assert (await lanes.place("second")).ahead == 0


@guard("place", "lane ~= 'background' or j.lane == 'background'", "true")
async def test_no_background_job_is_ahead_of_a_persons(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("quiet", lane="background"))
    clock.forward(1)
    await lanes.submit(job("a"))
    assert (await lanes.place("a")).ahead == 0


@guard("place", "lane ~= 'background' or j.lane == 'background'", "lane ~= 'background'")
async def test_another_background_job_is_ahead_of_one(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("quiet", lane="background"))
    clock.forward(1)
    await lanes.submit(job("a", lane="background"))
    assert (await lanes.place("a")).ahead == 1
