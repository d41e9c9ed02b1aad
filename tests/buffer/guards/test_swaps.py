"""pull: when an engine that has one model in memory loads another."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.places import TWO, ask, end, has_a, look_in_s, put
from tests.buffer.jobs import ids, ready

DUE = "if best and at ~= 0 and now >= from then"
BUSY = "if flight.all.jobs > 0 and (at == 0 or now < at + SWAP) then"


@guard("pull", "models = memory.serves(models, memory_at + 1, models_at - 1, ours, elsewhere)", "")
@guard("_memory", "if anybody(here) then", "if false then")
async def test_jobs_of_the_model_in_memory_go_first(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1", "a1")
    assert await ask(lanes) == ["a1"]


@guard("pull", "if models_at > memory_at + 1 then", "if true then")
async def test_where_models_are_not_swapped_the_order_stands(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1", "a1")
    assert await ids(lanes, models=["a", "b"], limits=TWO) == ["b1"]


@guard("_memory", "best and at ~= 0 and now >= from", "best and at ~= 0", where=DUE)
@guard("_memory", DUE, "if false then")
async def test_another_goes_first_once_it_has_waited_for_fifteen_seconds(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1")
    clock.forward(14.9)
    await put(lanes, clock, "a1", "a2")
    assert await ask(lanes) == ["a1"]
    await end(lanes, "a1")
    assert round(await look_in_s(lanes), 3) == 0.097
    clock.forward(0.1)
    await put(lanes, clock, "a3")
    await end(lanes, "a2")
    assert await ask(lanes) == ["b1"]


@guard("_memory", "math.max(since, at) + SWAP", "since + SWAP")
async def test_not_within_fifteen_seconds_of_the_last_swap(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1", "c1", "a1", "b2")
    await end(lanes, "a0")
    clock.forward(15)
    assert await ask(lanes, models=["a", "b", "c"]) == ["b1"]
    for seconds, expected in ((14.9, "b2"), (0.1, "c1")):
        clock.forward(seconds)
        await put(lanes, clock, f"b{seconds}")
        assert await ask(lanes, models=["a", "b", "c"], limits=Limits(slots=9)) == [expected]


@guard("_memory", "best and at ~= 0 and ", "best and ", where=DUE)
async def test_the_time_runs_from_when_the_model_before_is_done(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b0")
    assert await ask(lanes) == ["b0"], "the last swap is long ago"
    await put(lanes, clock, "a1")
    clock.forward(20)
    await put(lanes, clock, "b1")
    assert await ask(lanes, limits=Limits(slots=3)) == ["b1"], "a0 runs still, so b is not even loaded"


@guard("_memory", "if at == 0 and only(model) then", "if false then")
@guard("_memory", "if at == 0 and only(model) then", "if at == 0 then")
async def test_it_is_noted_when_the_model_before_is_done(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b0")
    assert await ask(lanes) == ["b0"]
    memory = lanes.keys.memory("b")
    await put(lanes, clock, "b1")
    await ask(lanes, 0)
    assert await lanes.store.redis.hget(memory, "at") == b"0"
    await end(lanes, "a0")
    clock.forward(1)
    await ask(lanes, 0)
    assert await lanes.store.redis.hget(memory, "at") == str(clock.now).encode()
    assert 0 < await lanes.store.redis.ttl(memory) <= 86400


@guard("_memory", "if call('HGET', P .. 'job:' .. other.id, 'model') ~= one then", "if true then")
async def test_a_swap_of_an_idle_engine_begins_at_once(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await end(lanes, "a0")
    await put(lanes, clock, "b0")
    assert await ask(lanes) == ["b0"]
    assert await lanes.store.redis.hget(lanes.keys.memory("b"), "at") == str(clock.now).encode()


@guard("_memory", "flight.all.jobs > 0 and ", "", where=BUSY)
async def test_an_idle_engine_changes_at_once(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await end(lanes, "a0")
    await put(lanes, clock, "b0")
    assert await ask(lanes) == ["b0"]
    await end(lanes, "b0")
    await put(lanes, clock, "a1")
    assert await ask(lanes) == ["a1"]


@guard("_memory", "at == 0 or now < at + SWAP", "at == 0", where=BUSY)
@guard("_memory", BUSY, "if false then")
async def test_one_that_works_does_not_within_fifteen_seconds(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await put(lanes, clock, "a0")
    assert await ask(lanes) == ["a0"]
    clock.forward(5)
    await put(lanes, clock, "b0")
    assert await ask(lanes) == []
    assert round(await look_in_s(lanes), 3) == 9.999
    clock.forward(10)
    assert await ask(lanes) == ["b0"]


@guard("_memory", "at == 0 or now < at + SWAP", "now < at + SWAP", where=BUSY)
async def test_nor_while_it_has_not_even_changed_to_the_last(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b0")
    assert await ask(lanes) == ["b0"]
    clock.forward(20)
    await put(lanes, clock, "a1")
    assert await ask(lanes, limits=Limits(slots=3)) == []


@guard("_memory", "if model ~= j.model then", "if true then")
async def test_a_further_job_of_the_same_model_is_no_swap(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    before = await lanes.store.redis.hget(lanes.keys.memory("b"), "at")
    await put(lanes, clock, "a1")
    assert await ask(lanes) == ["a1"]
    assert await lanes.store.redis.hget(lanes.keys.memory("b"), "at") == before
