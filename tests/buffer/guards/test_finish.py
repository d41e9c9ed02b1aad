"""The end of a job."""

from __future__ import annotations

from buffer.job import End
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import ids_in, lifetime
from tests.buffer.jobs import record, running

DONE = End("done")


@guard("_finish", "  call('HDEL', j.key, 'prefix', j.kept and 'prefix' or 'body')\n", "")
async def test_an_ended_job_keeps_no_text(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, DONE)
    assert not {"body", "prefix"} & (await record(lanes, "a")).keys()


@guard("_finish", "j.det and DONE_JOB_S or reply_s", "reply_s")
async def test_the_answer_of_a_detached_job_stays(lanes: Lanes) -> None:
    granted = await running(lanes, det=True)
    await lanes.settle("a", granted.fence, 1, DONE)
    assert await lifetime(lanes, "reply:a") > 60


@guard("_finish", "j.det and DONE_JOB_S or reply_s", "DONE_JOB_S")
async def test_another_answer_does_not(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, DONE)
    assert await lifetime(lanes, "reply:a") <= 60


@guard("_finish", "kind == 'cancelled' and CANCELLED_REPLY_S or DONE_REPLY_S", "DONE_REPLY_S")
async def test_a_cancelled_one_goes_at_once(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("cancelled"))
    assert await lifetime(lanes, "reply:a") < 30


@guard("_finish", "kind == 'cancelled' and CANCELLED_REPLY_S or DONE_REPLY_S", "CANCELLED_REPLY_S")
async def test_one_that_was_not_cancelled_can_still_be_read(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, DONE)
    assert await lifetime(lanes, "reply:a") > 30


@guard(
    "_finish",
    "local function finish(j, n, kind, data, said, noted)\n  local freed = out(j)",
    "local function finish(j, n, kind, data, said, noted)\n  local freed = 0",
)
async def test_an_end_frees_its_place(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, DONE)
    assert await ids_in(lanes, "lease") == await ids_in(lanes, "load:b") == []


@guard("_finish", "local function erase(j)\n  local freed = out(j)", "local function erase(j)\n  local freed = 0")
async def test_a_drop_frees_its_place(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("cancelled"), drop=True)
    assert await ids_in(lanes, "lease") == await ids_in(lanes, "load:b") == []
