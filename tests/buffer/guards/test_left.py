"""pull: what back ends leave to one another, and how much is done at once."""

from __future__ import annotations

from buffer.heard import Said
from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import give_back, ids_in, length
from tests.buffer.jobs import INBOX, Clock, ids, job, pull, ready, record, running

FOUR = Limits(slots=4)
HALF = {"owner": "key:a", "share": 500}


async def _failed_at(lanes: Lanes, backend: str, id: str = "a") -> None:
    (granted,) = (await pull(lanes, backend=backend)).jobs
    assert granted.id == id
    await give_back(lanes, granted, "error", leave_s=2.0)


@guard("pull", "if stands_in > 0 then", "if false then")
async def test_who_stands_in_takes_only_what_was_left_to_it(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await _failed_at(lanes, "b")
    await lanes.submit(job("other"))
    assert await ids(lanes, 2, backend="spare", left_by=["b"]) == ["a"]


@guard("_queues", "left_by[told[2]] and ", "")
async def test_not_what_another_left(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await _failed_at(lanes, "another")
    assert await ids(lanes, backend="spare", left_by=["b"]) == []


@guard("_queues", "told[1] == 'waiting' and ", "")
async def test_not_what_runs_by_now(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await _failed_at(lanes, "b")
    assert await ids(lanes, backend="other") == ["a"]
    await lanes.submit(job("b"))
    assert await ids(lanes, backend="spare", left_by=["b"]) == []
    assert (await lanes.place("a")).state == "running"


@guard("_queues", "    call('ZREMRANGEBYSCORE', key, '-inf', int(now))\n", "")
async def test_not_what_was_left_long_ago(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a"))
    await _failed_at(lanes, "b")
    clock.forward(3)
    assert await ids(lanes, backend="spare", left_by=["b"]) == []


@guard("_queues", "left_by[told[2]] and not looked[id]", "left_by[told[2]]")
async def test_behind_what_does_not_fit_there_the_next_is_taken(lanes: Lanes) -> None:
    await ready(lanes)
    for id in ("first", "a"):
        await lanes.submit(job(id, long=True))
        await _failed_at(lanes, "b", id)
        if id == "first":
            assert await ids(lanes, backend="spare", left_by=["b"]) == ["first"]
    await lanes.submit(job("b"))
    await _failed_at(lanes, "b", "b")
    assert await ids(lanes, backend="spare", left_by=["b"], limits=Limits(slots=9, long=1)) == ["b"]


@guard("_queues", "  if c.queue then\n", "  if true then\n")
async def test_what_was_left_and_cannot_be_granted_is_erased(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await _failed_at(lanes, "b")
    await lanes.store.redis.delete(lanes.keys.inbox(INBOX))
    assert await ids(lanes, backend="spare", left_by=["b"]) == []


async def test_nothing_due_comes_before_what_was_left(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("due", lane="slow", max_wait_us=1_000_000, offset_us=1_000_000))
    clock.forward(2)
    await lanes.submit(job("a"))
    (due,) = (await pull(lanes, backend="b")).jobs
    await _failed_at(lanes, "b")
    await give_back(lanes, due)
    assert await ids(lanes, backend="spare", left_by=["b"]) == ["a"]


@guard("pull", "    or gone >= MOST_GONE then\n", "    then\n")
async def test_so_many_that_are_too_old_end_at_once(lanes: Lanes) -> None:
    clock = await ready(lanes)
    for number in range(70):
        await lanes.submit(job(f"j{number}", timeout_us=1000))
    clock.forward(1)
    await ids(lanes)
    assert len(await ids_in(lanes, "wait:m:fast")) > 0


@guard("pull", "if gone >= MOST_GONE then", "if false then")
async def test_then_somebody_comes_for_the_rest(lanes: Lanes) -> None:
    clock = await ready(lanes)
    for number in range(70):
        await lanes.submit(job(f"j{number}", timeout_us=1000))
    clock.forward(1)
    await ids(lanes)
    assert await length(lanes, "bell") == 1


@guard("pull", "if gone >= MOST_GONE then", "if true then")
async def test_for_nothing_nobody_is_rung(lanes: Lanes) -> None:
    await ready(lanes)
    await ids(lanes)
    assert await length(lanes, "bell") == 0


async def _passed_by(lanes: Lanes) -> Clock:
    """A job that the back end ``b`` cannot go on with."""
    clock = await ready(lanes)
    await give_back(lanes, await running(lanes), "passed", said=Said("hi"), leave_s=30.0)
    return clock


ABLE = "(goes_on or now >= j.able_until)"


@guard("release", "if why == 'passed' then", "if false then")
@guard("pull", ABLE, "true")
async def test_a_job_that_one_cannot_go_on_with_is_left_to_those_that_can(lanes: Lanes) -> None:
    await _passed_by(lanes)
    assert await ids(lanes, backend="other", goes_on=False) == []


@guard("pull", ABLE, "now >= j.able_until")
async def test_who_can_go_on_may_have_it(lanes: Lanes) -> None:
    await _passed_by(lanes)
    assert await ids(lanes, backend="other") == ["a"]


@guard("pull", ABLE, "(goes_on or j.able_until == 0)")
async def test_it_is_not_left_to_those_for_ever(lanes: Lanes) -> None:
    clock = await _passed_by(lanes)
    clock.forward(31)
    assert await ids(lanes, backend="other", goes_on=False) == ["a"]


@guard("pull", ABLE, "goes_on")
@guard("release", "if why == 'passed' then", "if true then")
async def test_who_cannot_go_on_may_have_all_else(lanes: Lanes) -> None:
    await ready(lanes)
    await give_back(lanes, await running(lanes), "drain", leave_s=30.0)
    assert await ids(lanes, backend="other", goes_on=False) == ["a"]


@guard("release", ", 'deadline', int(j.deadline)", "")
async def test_to_be_passed_by_is_no_new_wait(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    before = (await record(lanes, "a"))["deadline"]
    clock.forward(1)
    await give_back(lanes, granted, "passed", said=Said("hi"), leave_s=30.0)
    assert (await record(lanes, "a"))["deadline"] == before
