"""reap: leases that ran out, and what is left over."""

from __future__ import annotations

from buffer.heard import Said
from buffer.lanes import Lanes
from buffer.outcomes import Reaped
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import give_back, ids_in, length, letters, pass_by, requeue, state, swept
from tests.buffer.jobs import LEASE_S, chunk, frames, ids, job, kinds, pull, record, running

NOTHING = Reaped(0, 0, 0, 0)


@guard("reap", "if now - last > lease / 2 then", "if false then")
async def test_when_the_store_was_away_nobody_loses_a_job(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    clock.forward(3600)
    assert await lanes.reap(LEASE_S) == NOTHING
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + LEASE_S * 1e6


@guard("reap", "if now - last > lease / 2 then", "if now - last > lease then")
async def test_away_for_half_a_lease_is_away(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    clock.forward(LEASE_S * 0.45)
    await lanes.reap(LEASE_S)
    clock.forward(LEASE_S * 0.6)
    assert await lanes.reap(LEASE_S) == NOTHING
    assert await state(lanes) == "running"


@guard("reap", "if now - last > lease / 2 then", "if true then")
async def test_when_it_was_not_away_leases_run_out(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    await pass_by(lanes, clock, LEASE_S + 1)
    assert await state(lanes) == "held"


@guard("reap", "'(' .. int(now + lease))", "'+inf')")
async def test_a_longer_lease_is_not_cut(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    clock.forward(LEASE_S)
    await lanes.reap(1.0)
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + 1_000_000
    await lanes.store.redis.zadd(lanes.keys.lease, {"a": clock.now + 9_000_000})
    clock.forward(1)
    await lanes.reap(1.0)
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + 8_000_000


@guard("reap", "call('ZRANGEBYSCORE', leases, '-inf', int(now), 'LIMIT', 0, AT_ONCE)", "call('ZRANGE', leases, 0, -1)")
async def test_a_lease_that_has_not_run_out_is_left(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    clock.forward(1)
    assert await lanes.reap(LEASE_S) == NOTHING
    assert await state(lanes) == "running"


@guard("reap", "if not j then", "if false then")
async def test_the_lease_of_a_job_without_a_record_is_cleared(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    await lanes.store.redis.delete(lanes.keys.job("a"))
    await pass_by(lanes, clock, LEASE_S + 1)
    assert await ids_in(lanes, "lease") == await ids_in(lanes, "load:b") == []


@guard("reap", "elseif j.st ~= 'running' and j.st ~= 'held' then", "elseif false then")
async def test_a_lease_that_a_waiting_job_has_left_is_cleared(lanes: Lanes) -> None:
    clock = await swept(lanes)
    granted = await running(lanes)
    await give_back(lanes, granted)
    await lanes.store.redis.zadd(lanes.keys.lease, {"a": clock.now})
    await lanes.store.redis.hset(lanes.keys.load("b"), "a", "1,1,0")
    await pass_by(lanes, clock, 1)
    assert await state(lanes) == "waiting"
    assert await ids_in(lanes, "lease") == await ids_in(lanes, "load:b") == []


@guard("reap", "elseif j.cancel ~= '' then", "elseif false then")
async def test_a_cancelled_job_of_a_dead_worker_ends(lanes: Lanes) -> None:
    clock = await swept(lanes)
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a")])
    await lanes.cancel("a")
    await pass_by(lanes, clock, LEASE_S + 1)
    assert (await frames(lanes))[-1]["k"] == "cancelled"


@guard("reap", "elseif j.cancel ~= '' then\n    raise(j)\n", "elseif j.cancel ~= '' then\n")
async def test_its_end_is_under_a_new_fence(lanes: Lanes) -> None:
    clock = await swept(lanes)
    granted = await running(lanes)
    await lanes.cancel("a")
    await pass_by(lanes, clock, LEASE_S + 1)
    assert int((await record(lanes, "a"))["fence"]) > granted.fence


@guard("reap", "elseif j.st == 'held' then", "elseif false then")
async def test_a_held_job_does_not_stay(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    await pass_by(lanes, clock, LEASE_S + 7)
    assert await state(lanes) == "gone"


@guard("reap", "if j.det then", "if false then")
async def test_a_held_detached_job_goes_on(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes, det=True)
    await pass_by(lanes, clock, LEASE_S + 7)
    assert (await record(lanes, "a")).get("prefix") == "@reply"
    assert await ids_in(lanes, "lease") == []


@guard("reap", ", 'spent', '0')", ")")
async def test_it_is_not_told_the_tokens_twice_that_its_reply_tells(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await lanes.submit(job("a", det=True))
    (granted,) = (await pull(lanes)).jobs
    await give_back(lanes, granted, said=Said("so far"), spent=2)
    await pull(lanes)
    await pass_by(lanes, clock, LEASE_S + 7)
    (again,) = (await pull(lanes)).jobs
    assert (again.prefix, again.spent) == ("@reply", 0)


@guard("reap", "if j.det then", "if true then")
async def test_a_held_job_of_a_gateway_that_is_gone_goes_with_it(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    await pass_by(lanes, clock, LEASE_S + 7)
    assert await ids_in(lanes, "wait:m:fast") == []


async def _taken_over(lanes: Lanes, times: int) -> tuple[int, int]:
    """The fence of the last attempt, and of the job."""
    clock = await swept(lanes)
    await lanes.submit(job("a"))
    fence = 0
    for _ in range(times):
        (granted,) = (await pull(lanes)).jobs
        await pass_by(lanes, clock, LEASE_S + 1)
        fence = (await lanes.place("a")).fence
        await requeue(lanes, fence)
    return granted.fence, fence


@guard("reap", "elseif j.taken + 1 >= MOST_TAKEN then", "elseif false then")
async def test_taken_over_three_times_it_ends(lanes: Lanes) -> None:
    await _taken_over(lanes, 3)
    assert (await kinds(lanes, "a"))[-1][1] == "failed"
    assert await letters(lanes) == ["taken over three times"]


@guard("reap", "j.taken + 1 >= MOST_TAKEN", "j.taken + 2 >= MOST_TAKEN")
async def test_taken_over_twice_it_goes_on(lanes: Lanes) -> None:
    await _taken_over(lanes, 2)
    assert await ids(lanes) == ["a"]


@guard("reap", "elseif j.taken + 1 >= MOST_TAKEN then\n    raise(j)\n", "elseif j.taken + 1 >= MOST_TAKEN then\n")
async def test_that_end_is_under_a_new_fence(lanes: Lanes) -> None:
    last, fence = await _taken_over(lanes, 3)
    assert fence > last


@guard("reap", "    freed = freed + out(j)\n    raise(j)\n", "    freed = freed + out(j)\n")
async def test_take_over_raises_the_fence_and_marks_it(lanes: Lanes) -> None:
    clock = await swept(lanes)
    granted = await running(lanes)
    await pass_by(lanes, clock, LEASE_S + 1)
    fence = (await lanes.place("a")).fence
    assert fence > granted.fence
    assert (await kinds(lanes, "a"))[-1] == (f"{fence}-0", "lost")
    assert await lanes.append([chunk(granted, 1, "a")]) == ["lost"]


@guard("reap", "    freed = freed + out(j)\n    raise(j)\n", "    raise(j)\n")
async def test_take_over_frees_the_place(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    await pass_by(lanes, clock, LEASE_S + 1)
    assert await ids_in(lanes, "load:b") == []


@guard("reap", "if freed > 0 then", "if false then")
async def test_whoever_waits_is_told_of_the_place(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    await pass_by(lanes, clock, LEASE_S + 1)
    assert await length(lanes, "bell") == 1


@guard("reap", "if freed > 0 then", "if true then")
async def test_the_bell_is_not_rung_for_nothing(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await pass_by(lanes, clock, LEASE_S)
    assert await length(lanes, "bell") == 0
