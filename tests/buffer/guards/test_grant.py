"""pull: what a grant is, and what is told beside it."""

from __future__ import annotations

from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import give_back, ids_in
from tests.buffer.jobs import ids, job, kinds, pull, ready, running


async def _failed_here(lanes: Lanes) -> None:
    await lanes.submit(job("a"))
    (granted,) = (await pull(lanes)).jobs
    await give_back(lanes, granted, "error", leave_s=2.0)


@guard("pull", "j.left == backend and now < j.left_until", "false")
async def test_a_job_that_failed_at_a_back_end_is_left_to_others(lanes: Lanes) -> None:
    await ready(lanes)
    await _failed_here(lanes)
    assert await ids(lanes) == []


@guard("pull", "j.left == backend and now < j.left_until", "now < j.left_until")
async def test_others_may_have_it(lanes: Lanes) -> None:
    await ready(lanes)
    await _failed_here(lanes)
    assert await ids(lanes, backend="other") == ["a"]


@guard("pull", "j.left == backend and now < j.left_until", "j.left == backend")
async def test_it_is_not_left_to_others_for_ever(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _failed_here(lanes)
    clock.forward(3)
    assert await ids(lanes) == ["a"]


@guard("_sending", "    out(j)\n    j.backend", "    j.backend")
async def test_a_granted_job_waits_no_more(lanes: Lanes) -> None:
    await running(lanes)
    for name in ("wait:m:fast", "turn:m:fast", "due:m"):
        assert await ids_in(lanes, name) == []


@guard("_grant", "raise(j, 'st'", "call('HSET', j.key, 'st'")
async def test_a_grant_raises_the_fence_and_marks_it(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert granted.fence > 0
    assert (await kinds(lanes, "a"))[-1] == (f"{granted.fence}-0", "start")


@guard("_grant", "  call('ZREMRANGEBYSCORE', fair, '-inf', int(tag))\n", "")
async def test_users_behind_the_queues_clock_are_forgotten(lanes: Lanes) -> None:
    await ready(lanes)
    for id in "abc":
        await lanes.submit(job(id, user=id, cost=10))
        await lanes.submit(job(id * 2, user=id, cost=10))
    await ids(lanes, 6)
    assert await ids_in(lanes, "fair:m:fast") == ["V", "u:a", "u:b", "u:c"]
    await lanes.submit(job("d", user="a", cost=10))
    await lanes.submit(job("e", user="a", cost=10))
    await ids(lanes, 2)
    assert await ids_in(lanes, "fair:m:fast") == ["V", "u:a"]
