"""A job that the store had lost: renew, append, release and settle of the attempt that is to go on with it."""

from __future__ import annotations

from buffer.job import End
from buffer.lanes import Lanes
from buffer.records import Granted, Held, Renewed
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import give_back, ids_in, requeue
from tests.buffer.jobs import INBOX, LEASE_S, chunk, is_quiet, pull
from tests.buffer.test_adoption import emptied, lost_and_restored, restored

DONE = End("done")


async def _renew(lanes: Lanes, granted: Granted, fence: int = 0) -> Renewed:
    (one,) = await lanes.renew("w", [Held(granted.id, fence or granted.fence, "b")], LEASE_S)
    return one


async def _handed_on(lanes: Lanes) -> Granted:
    """Adopted, and another's since then. The attempt that is over."""
    granted, fence = await lost_and_restored(lanes)
    await _renew(lanes, granted)
    await requeue(lanes, fence)
    await pull(lanes, worker="w2")
    return granted


@guard("renew", "heir(j.key, ARGV[i + 1], int(j.fence))", "false")
@guard("_heir", "v[1] == fence or ", "")
async def test_the_attempt_that_the_record_names_adopts_it(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes, have=3)
    assert await _renew(lanes, granted) == Renewed("adopt", INBOX, fence, 3)


@guard("renew", "heir(j.key, ARGV[i + 1], int(j.fence))", "true")
async def test_no_other_does(lanes: Lanes) -> None:
    granted, _ = await lost_and_restored(lanes)
    assert (await _renew(lanes, granted, granted.fence - 1)).status == "lost"


@guard("_heir", " or v[2] == fence .. ':' .. current", "")
@guard("renew", "call('HSET', j.key, 'adopted', ARGV[i + 1] .. ':' .. int(j.fence))", "")
async def test_the_answer_to_an_adoption_can_be_asked_for_again(lanes: Lanes) -> None:
    granted, _ = await lost_and_restored(lanes)
    assert await _renew(lanes, granted) == await _renew(lanes, granted)


@guard("_heir", "v[2] == fence .. ':' .. current", "string.match(v[2] or '', '^' .. fence .. ':')")
async def test_an_adoption_of_before_is_none(lanes: Lanes) -> None:
    granted = await _handed_on(lanes)
    assert (await _renew(lanes, granted)).status == "lost"


@guard("renew", "call('HDEL', j.key, 'adopt')", "")
async def test_adopted_it_is_nobody_else_s_to_adopt(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes)
    await _renew(lanes, granted)
    assert await lanes.store.redis.hget(lanes.keys.job("a"), "adopt") is None
    assert (await _renew(lanes, granted, fence)).status == "ok"


@guard("renew", "call('HDEL', P .. 'load:' .. j.backend, j.id)", "")
async def test_its_credit_moves_to_where_it_runs(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes, backend="other")
    await _renew(lanes, granted)
    assert await ids_in(lanes, "load:other") == []
    assert await lanes.settle("a", fence, 1, DONE) == "ok"
    assert await is_quiet(lanes)


async def test_where_it_ran_already_its_credit_stays(lanes: Lanes) -> None:
    granted, _ = await lost_and_restored(lanes, backend="b")
    await _renew(lanes, granted)
    assert await ids_in(lanes, "load:b") == ["a"]


@guard("append", "heir(key, ARGV[i + 1], v[2]) and 'orphan' or 'lost'", "'lost'")
async def test_append_under_the_fence_of_before_is_an_orphan_s(lanes: Lanes) -> None:
    granted, _ = await lost_and_restored(lanes)
    assert await lanes.append([chunk(granted, 1, "one")]) == ["orphan"]
    await _renew(lanes, granted)
    assert await lanes.append([chunk(granted, 1, "one")]) == ["orphan"]


@guard("append", "heir(key, ARGV[i + 1], v[2]) and 'orphan' or 'lost'", "'orphan'")
async def test_append_of_an_attempt_that_is_over_is_lost(lanes: Lanes) -> None:
    granted = await _handed_on(lanes)
    assert await lanes.append([chunk(granted, 1, "one")]) == ["lost"]


@guard("settle", "heir(j.key, ARGV[3], j.under) and 'orphan' or 'lost'", "'lost'")
async def test_settle_under_the_fence_of_before_is_an_orphan_s(lanes: Lanes) -> None:
    granted, _ = await lost_and_restored(lanes)
    assert await lanes.settle("a", granted.fence, 1, DONE) == "orphan"


@guard("settle", "heir(j.key, ARGV[3], j.under) and 'orphan' or 'lost'", "'orphan'")
async def test_settle_of_an_attempt_that_is_over_is_lost(lanes: Lanes) -> None:
    granted = await _handed_on(lanes)
    assert await lanes.settle("a", granted.fence, 1, DONE) == "lost"


@guard("settle", "j.st == 'running' and heir", "heir")
async def test_settle_of_an_answer_that_has_ended_under_its_new_fence_is_lost(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes)
    await _renew(lanes, granted)
    assert await lanes.settle("a", fence, 1, DONE) == "ok"
    assert await lanes.settle("a", granted.fence, 1, DONE) == "lost"


@guard("settle", "kind == 'drop' and 'gone' or 'orphan'", "'gone'")
async def test_settle_of_a_job_that_was_lost_is_an_orphan_s(lanes: Lanes) -> None:
    granted, _ = await lost_and_restored(lanes)
    await emptied(lanes)
    assert await lanes.settle("a", granted.fence, 1, DONE) == "orphan"


@guard("settle", "kind == 'drop' and 'gone' or 'orphan'", "'orphan'")
async def test_but_one_that_is_to_be_dropped_is_gone(lanes: Lanes) -> None:
    assert await lanes.settle("none", 1, 1, End("cancelled"), drop=True) == "gone"


@guard("release", "heir(j.key, ARGV[3], int(j.fence)) and 'orphan' or 'lost'", "'lost'")
async def test_release_under_the_fence_of_before_is_an_orphan_s(lanes: Lanes) -> None:
    granted, _ = await lost_and_restored(lanes)
    assert await give_back(lanes, granted) == "orphan"


@guard("release", "heir(j.key, ARGV[3], int(j.fence)) and 'orphan' or 'lost'", "'orphan'")
async def test_release_of_an_attempt_that_is_over_is_lost(lanes: Lanes) -> None:
    granted = await _handed_on(lanes)
    assert await give_back(lanes, granted) == "lost"


@guard("renew", "result[1] ~= 'orphan' and result[1] ~= 'lost'", "result[1] ~= 'orphan'")
async def test_what_is_lost_gets_no_lease(lanes: Lanes) -> None:
    granted, _ = await lost_and_restored(lanes)
    await requeue(lanes, (await lanes.place("a")).fence)
    assert (await _renew(lanes, granted)).status == "lost"
    assert await ids_in(lanes, "lease") == []


@guard("renew", "result[1] ~= 'orphan' and result[1] ~= 'lost'", "result[1] ~= 'lost' and j")
async def test_nor_does_an_orphan(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes)
    assert (await _renew(lanes, granted, fence + 1)).status == "orphan"
    assert await ids_in(lanes, "load:b") == []


async def test_lost_and_found_twice(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes)
    await _renew(lanes, granted)
    await emptied(lanes)
    again = await restored(lanes, granted, have=0, floor=fence)
    assert await _renew(lanes, granted, fence) == Renewed("adopt", INBOX, again, 0)
