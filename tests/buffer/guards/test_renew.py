"""renew."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Granted, Held, Piece
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import give_back, ids_in, length, requeue, restored, taken_over
from tests.buffer.jobs import LEASE_S, carried, pull, ready, record, running


async def _renewed(lanes: Lanes, granted: Granted, *, ahead: int = 0, id: str = "a") -> str:
    (one,) = await lanes.renew("w", [Held(id, granted.fence + ahead, "b")], LEASE_S)
    return one.status


@guard("renew", "not j or j.fence < fence", "j and j.fence < fence")
async def test_renew_of_a_job_without_a_record_is_an_orphans(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await _renewed(lanes, granted, id="none") == "orphan"


@guard("renew", "not j or j.fence < fence", "not j")
async def test_renew_above_the_records_fence_is_an_orphans(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    before = await lanes.store.redis.zscore(lanes.keys.lease, "a")
    clock.forward(1)
    assert await _renewed(lanes, granted, ahead=1) == "orphan"
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == before


@guard("renew", "elseif j.st ~= 'running' then", "elseif false then")
async def test_renew_of_a_job_given_back_is_lost(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted)
    assert await _renewed(lanes, granted) == "lost"
    assert await ids_in(lanes, "lease") == await ids_in(lanes, "load:b") == []


@guard("renew", "elseif j.fence == fence then", "elseif true then")
async def test_renew_below_the_records_fence_is_lost(lanes: Lanes) -> None:
    first, _ = await taken_over(lanes)
    assert await _renewed(lanes, first) == "lost"


@guard("renew", "if call('EXPIRE', ctl, 60) == 0 then", "if true then")
async def test_renew_opens_the_workers_stream_once(lanes: Lanes) -> None:
    for _ in range(2):
        await lanes.renew("w", [], LEASE_S)
    assert await length(lanes, "ctl:w") == 1


@guard("renew", "j.cancel ~= '' and 'cancel' or 'ok'", "'ok'")
async def test_renew_tells_of_a_cancel_that_the_worker_did_not_hear(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await _renewed(lanes, granted) == "ok"
    await lanes.cancel("a")
    assert await _renewed(lanes, granted) == "cancel"


@guard("renew", "elseif heir(j.key, ARGV[i + 1], int(j.fence)) then", "elseif false then")
async def test_who_had_a_restored_job_is_to_adopt_it(lanes: Lanes) -> None:
    assert await _renewed(lanes, await restored(lanes)) == "adopt"


@guard("renew", "elseif heir(j.key, ARGV[i + 1], int(j.fence)) then", "elseif true then")
async def test_nobody_else_is(lanes: Lanes) -> None:
    granted = await restored(lanes)
    assert await _renewed(lanes, granted, ahead=-1) == "lost"


@guard("_heir", "v[1] == fence or ", "")
async def test_who_is_to_adopt_a_job_is_named_by_its_fence(lanes: Lanes) -> None:
    assert await _renewed(lanes, await restored(lanes)) == "adopt"


@guard("_heir", " or v[2] == fence .. ':' .. current", "")
async def test_who_did_not_hear_that_it_adopted_a_job_is_told_again(lanes: Lanes) -> None:
    granted = await restored(lanes)
    assert [await _renewed(lanes, granted) for _ in range(2)] == ["adopt", "adopt"]


@guard("_heir", "v[2] == fence .. ':' .. current", "v[2]")
async def test_it_is_not_told_so_once_another_has_the_job(lanes: Lanes) -> None:
    granted = await restored(lanes)
    await _renewed(lanes, granted)
    await requeue(lanes, (await lanes.place("a")).fence)
    assert len((await pull(lanes)).jobs) == 1
    assert await _renewed(lanes, granted) == "lost"


@guard("renew", "    call('HDEL', j.key, 'adopt')\n", "")
async def test_an_adopted_job_waits_for_nobody_any_more(lanes: Lanes) -> None:
    granted = await restored(lanes)
    await _renewed(lanes, granted)
    assert "adopt" not in await record(lanes, "a")


@guard("renew", "    call('HDEL', P .. 'load:' .. j.backend, j.id)\n", "")
async def test_an_adopted_job_takes_credit_of_one_back_end(lanes: Lanes) -> None:
    granted = await restored(lanes, backend="another")
    await _renewed(lanes, granted)
    assert (await ids_in(lanes, "load:another"), await ids_in(lanes, "load:b")) == ([], ["a"])


@guard("renew", "if result[1] ~= 'orphan' and result[1] ~= 'lost' then", "if result[1] ~= 'orphan' then")
async def test_who_lost_a_job_lengthens_no_lease(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted)
    await _renewed(lanes, granted)
    assert await ids_in(lanes, "lease") == []


@guard("renew", "if result[1] ~= 'orphan' and result[1] ~= 'lost' then", "if result[1] ~= 'lost' then")
async def test_nor_does_an_orphan(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    before = await lanes.store.redis.zscore(lanes.keys.lease, "a")
    clock.forward(1)
    await _renewed(lanes, granted, ahead=1)
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == before


@guard("_job", "if j.read == j.fence then", "if false then")
async def test_renew_takes_no_prefill_after_the_first_token(lanes: Lanes) -> None:
    granted = await running(lanes, lane="slow")
    await lanes.prefilled([Piece("a", granted.fence, 0)])
    await _renewed(lanes, granted)
    assert (await carried(lanes))["prefill"] == "0"


@guard("_job", "if j.read == j.fence then", "if j.read > 0 then")
async def test_another_attempt_takes_prefill_again(lanes: Lanes) -> None:
    granted = await running(lanes, lane="slow")
    await lanes.prefilled([Piece("a", granted.fence, 0)])
    await give_back(lanes, granted)
    (again,) = (await pull(lanes)).jobs
    await _renewed(lanes, again)
    assert (await carried(lanes))["prefill"] == "5"
