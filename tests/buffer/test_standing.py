"""How a request stands, told from its record and the ends of its answer."""

from __future__ import annotations

from buffer.job import End, Failure
from buffer.keys import DONE_JOB_S, DONE_REPLY_S
from buffer.lanes import Lanes
from buffer.letters import Letters
from buffer.records import GivenBack, Piece
from buffer.standing import Standing, read_standing
from tests.buffer.jobs import LEASE_S, START, chunk, clocked, job, pull, running


async def stands(lanes: Lanes, id: str = "a") -> Standing:
    found = await read_standing(lanes, id)
    assert found is not None
    return found


async def test_from_arrival_to_its_end(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.submit(job("b", det=True))
    clock.forward(1)
    await lanes.submit(job("a", det=True, owner="key:k", told=b"{}"))
    waiting = await stands(lanes)
    assert (waiting.state, waiting.ahead, waiting.backend, waiting.tries, waiting.end) == ("waiting", 1, "", 0, None)
    assert (waiting.owner, waiting.det, waiting.lane, waiting.model) == ("key:k", True, "fast", "m")
    clock.forward(1)
    granted = next(one for one in (await pull(lanes, 2)).jobs if one.id == "a")
    clock.forward(1)
    await lanes.append([chunk(granted, 1, "x")])
    clock.forward(1)
    await lanes.append([chunk(granted, 2, "y")])
    running_now = await stands(lanes)
    assert (running_now.state, running_now.backend, running_now.tries) == ("running", "b", 1)
    clock.forward(1)
    await lanes.settle("a", granted.fence, 3, End("done"))
    done = await stands(lanes)
    assert (done.state, done.end, done.told) == ("done", End("done"), b"{}")
    instants = (done.arrived_us, done.started_us, done.first_us, done.ended_us)
    assert [round((at - START) / 1e6) for at in instants] == [1, 2, 3, 5]


async def test_an_attempt_after_the_first_changes_no_instant(lanes: Lanes) -> None:
    clock = clocked(lanes)
    granted = await running(lanes, "a")
    await lanes.prefilled([Piece("a", granted.fence, 0)])
    first = await stands(lanes)
    assert first.first_us == clock.now
    clock.forward(1)
    await lanes.release("a", granted.fence, 1, GivenBack("error", max_attempts=3))
    clock.forward(1)
    (again,) = (await pull(lanes, worker="other")).jobs
    await lanes.append([chunk(again, 1, "x")])
    second = await stands(lanes)
    assert (second.tries, second.fails, second.taken) == (2, 1, 0)
    assert (second.started_us, second.first_us) == (first.started_us, first.first_us)


async def test_one_whose_worker_died_runs_until_it_is_known_who_goes_on(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await running(lanes, "a")
    for _ in range(5):  # the reaper looks each quarter of a lease
        clock.forward(LEASE_S / 4)
        await lanes.reap(LEASE_S)
    found = await stands(lanes)
    assert (found.state, found.taken) == ("running", 1)


async def test_one_that_is_told_to_stop(lanes: Lanes) -> None:
    granted = await running(lanes, "a")
    await lanes.cancel("a")
    assert (await stands(lanes)).cancelling
    await lanes.settle("a", granted.fence, 1, End("cancelled"))
    ended = await stands(lanes)
    assert (ended.state, ended.end) == ("cancelled", End("cancelled"))


async def test_one_that_was_cancelled_is_remembered_as_long_as_others(lanes: Lanes) -> None:
    """What it had said is gone before that."""
    await running(lanes, "b", det=True)
    await lanes.submit(job("a"))
    await lanes.cancel("a")
    await lanes.forget(["a"])
    found = await stands(lanes)
    assert (found.state, found.end, found.told) == ("cancelled", End("cancelled"), b"")
    await lanes.store.redis.expire(lanes.keys.job("a"), DONE_JOB_S - DONE_REPLY_S)
    assert await read_standing(lanes, "a") is None


async def test_nobody_knows_one_whose_answer_is_gone(lanes: Lanes) -> None:
    granted = await running(lanes, "a")
    await lanes.settle("a", granted.fence, 1, End("done"))
    assert await read_standing(lanes, "a") is not None
    await lanes.store.redis.expire(lanes.keys.job("a"), DONE_JOB_S - DONE_REPLY_S)
    await lanes.forget(["a"])
    assert await read_standing(lanes, "a") is None
    assert await read_standing(lanes, "b") is None


async def test_how_an_answer_is_to_be_told_outlives_a_second_try(lanes: Lanes) -> None:
    """A dead letter that is tried again by hand can still be come back for."""
    granted = await running(lanes, "a", det=True, told=b'{"path":"/api/chat"}')
    failed = End("failed", Failure("It broke."))
    assert await lanes.release("a", granted.fence, 1, GivenBack("error", max_attempts=1, failure=failed)) == "ended"
    before = await read_standing(lanes, "a")
    assert before is not None
    assert (before.state, before.end, before.told) == ("failed", failed, b'{"path":"/api/chat"}')
    assert await Letters(lanes.store, "default").retry("a") == "queued"
    after = await read_standing(lanes, "a")
    assert after is not None
    assert (after.state, after.end, after.told, after.ended_us) == ("waiting", None, before.told, 0)
