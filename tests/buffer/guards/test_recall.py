"""recall."""

from __future__ import annotations

from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import change, give_back, state, swept
from tests.buffer.jobs import chunk, ids, kinds, running


@guard("recall", "if j and ", "if ")
async def test_recall_of_a_job_without_a_record(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.store.redis.delete(lanes.keys.job("a"))
    assert (await lanes.recall("w", "b", [])).jobs == 0


@guard("recall", "j.st == 'running' and ", "")
async def test_recall_leaves_what_waits(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted)
    await change(lanes, "a", n=0)
    await lanes.store.redis.hset(lanes.keys.load("b"), "a", "1,1,0")
    assert (await lanes.recall("w", "b", [])).jobs == 0


@guard("recall", "j.worker == worker and ", "")
async def test_recall_leaves_what_another_worker_has(lanes: Lanes) -> None:
    await running(lanes)
    assert (await lanes.recall("another", "b", [])).jobs == 0


@guard("recall", "j.backend == backend and ", "")
async def test_recall_leaves_what_runs_elsewhere(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.store.redis.hset(lanes.keys.load("other"), "a", "1,1,0")
    assert (await lanes.recall("w", "other", [])).jobs == 0


@guard("recall", "j.fence ~= in_hand[id] and ", "")
async def test_recall_leaves_what_is_in_hand(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert (await lanes.recall("w", "b", [("a", granted.fence)])).jobs == 0


@guard("recall", "j.fence ~= in_hand[id]", "not in_hand[id]")
async def test_recall_takes_what_is_in_hand_by_an_older_grant(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert (await lanes.recall("w", "b", [("a", granted.fence - 1)])).jobs == 1
    assert await ids(lanes) == ["a"]


@guard("recall", " and j.n == 0 then", " then")
async def test_recall_leaves_what_has_begun_to_answer(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a")])
    assert (await lanes.recall("w", "b", [])).jobs == 0


@guard("recall", "if j.cancel ~= '' then", "if false then")
async def test_recall_ends_what_was_cancelled(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.cancel("a")
    assert (await lanes.recall("w", "b", [])).jobs == 1
    assert await state(lanes) == "done"


@guard("recall", "if v[1] ~= '@reply' then", "if false then")
async def test_recall_tells_the_gateway_that_it_waits_again(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.recall("w", "b", [])
    assert (await kinds(lanes, "a"))[-1] == (f"{granted.fence}-1", "again")


@guard("recall", "if v[1] ~= '@reply' then", "if true then")
async def test_recall_does_not_forget_what_a_reply_said(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    await change(lanes, "a", prefix="@reply")
    await lanes.recall("w", "b", [])
    assert clock.now > 0
    assert (await kinds(lanes, "a"))[-1][1] == "start"
