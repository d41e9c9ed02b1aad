"""pull: what is in an engine's memory, and which of several models is next."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import GivenBack
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.places import LONG_AGO, TWO, ask, end, has_a, look, put, up
from tests.buffer.guards.steps import ids_in
from tests.buffer.guards.test_full import full
from tests.buffer.jobs import ids, job, pull, ready

STAY = "if #here > 0 and not persons then"
READY = "if now < came + NEAR and elsewhere.ready(best) then"
SEEN = "if not found[model] and now - tonumber(ARGV[first]) < since + SWAP then"


@guard("_memory", "if model ~= j.model then", "if false then")
async def test_what_a_job_was_sent_for_counts_as_there_before_anybody_looks(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await put(lanes, clock, "b0")
    assert await ask(lanes, memory=look("a")) == ["b0"]
    await put(lanes, clock, "a1", "b1")
    assert await ask(lanes, memory=look("a")) == ["b1"]


@guard("_memory", " and now - tonumber(ARGV[first]) < since + SWAP", "", where=SEEN)
async def test_what_a_later_look_finds_counts_for_more(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await end(lanes, "a0")
    await put(lanes, clock, "a1", "b1")
    assert await ask(lanes, memory=look("b")) == ["b1"]


@guard("_memory", "now - tonumber(ARGV[first]) < since", "now < since", where=SEEN)
async def test_an_older_look_counts_for_less(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await put(lanes, clock, "a0")
    await ask(lanes)
    clock.forward(20)
    await put(lanes, clock, "b1", "a1")
    assert await ask(lanes, memory=look("b", age_s=6)) == ["a1"]


@guard("_memory", "not found[model] and ", "", where=SEEN)
async def test_models_side_by_side_are_no_swap(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await put(lanes, clock, "a0")
    await ask(lanes)
    await put(lanes, clock, "b1", "a1")
    assert await ask(lanes, memory=look("a", "b")) == ["b1"]


async def test_of_an_engine_that_nobody_used_yet_the_look_counts(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await put(lanes, clock, "b1", "a1")
    assert await ask(lanes, memory=look("a")) == ["a1"]


@guard("_memory", STAY, "if false then")
async def test_background_work_goes_on_with_the_model_that_is_there(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1", "a1", lane="background")
    assert await ask(lanes) == ["a1"]


@guard("_memory", "#here > 0 and ", "", where=STAY)
async def test_background_work_has_a_model_loaded_where_nothing_else_is_to_be_done(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1", lane="background")
    assert await ask(lanes) == ["b1"]


@guard("_memory", "persons and {'thinking', 'fast', 'normal', 'slow'} or {'background'}", "{'background'}")
@guard("pull", "not anybody(everyone), #over", "not anybody(models), #over")
async def test_background_work_stays_behind_people_of_another_model(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await put(lanes, clock, "a0")
    await ask(lanes)
    await put(lanes, clock, "a1", lane="background")
    await put(lanes, clock, "b1")
    assert await ask(lanes) == [], "nothing is swapped so soon, and a place is kept"
    clock.forward(15)
    assert await ask(lanes) == ["b1"]


@guard("_memory", "if arr and (not best or arr < since) then", "if arr and not best then")
@guard("_memory", "if arr and (not best or arr < since) then", "if arr then")
async def test_of_several_the_one_that_was_waited_for_longest(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "d1", "b1", "c1")
    await put(lanes, clock, "c2", "d2", "b2")
    await end(lanes, "a0")
    await put(lanes, clock, "a1")
    clock.forward(16)
    assert await ask(lanes, models=["c", "d", "b", "a"]) == ["d1"]


@guard("_memory", "if j and ours(j) then", "if j then")
async def test_nobody_changes_models_for_a_job_that_may_not_go_there(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1", lane="slow")
    clock.forward(16)
    await put(lanes, clock, "a1")
    assert await ask(lanes, only=["fast"]) == ["a1"]


@guard("_memory", "if j and ours(j) then", "if ours(j) then")
async def test_nor_for_one_that_is_gone(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1")
    await lanes.store.redis.delete(lanes.keys.job("b1"))
    clock.forward(16)
    await put(lanes, clock, "a1")
    assert await ask(lanes) == ["a1"]


@guard("_memory", "if score and (not best or score < best_score) then", "if score and not best then")
@guard("_memory", "if score and (not best or score < best_score) then", "if score then")
async def test_of_several_the_one_whose_turn_it_is(lanes: Lanes) -> None:
    await has_a(lanes)
    await end(lanes, "a0")
    for order in (("b", "c", "d"), ("d", "c", "b")):
        for model in order:
            await lanes.submit(job(f"{model}{order[0]}", model=model, offset_us={"b": 9, "c": 1, "d": 5}[model]))
        taken = await ask(lanes, models=["a", "b", "c", "d"])
        assert taken == [f"c{order[0]}"]
        await end(lanes, *taken)
        await lanes.cancel(f"b{order[0]}")
        await lanes.cancel(f"d{order[0]}")


@guard("_memory", "if top[1] and (not score or tonumber(top[2]) < score) then", "if top[1] then")
@guard("_memory", "if top[1] and (not score or tonumber(top[2]) < score) then", "if top[1] and not score then")
async def test_the_lowest_of_all_its_lanes_counts(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await end(lanes, "a0")
    for first, last in ((9, 1), (1, 9)):
        await put(lanes, clock, f"c{first}", lane="normal", offset_us=5_000_000)
        await put(lanes, clock, f"b{first}", lane="thinking", offset_us=first * 1_000_000)
        await put(lanes, clock, f"b{first}x", lane="slow", offset_us=last * 1_000_000)
        taken = await ask(lanes, models=["a", "b", "c"])
        assert taken[0][0] == "b"
        await end(lanes, *taken)
        for id in (f"b{first}", f"b{first}x", f"c{first}"):
            await lanes.cancel(id)
        await lanes.store.redis.hset(lanes.keys.memory("b"), "model", "a")


@guard("_memory", "elsewhere.ready(best)", "false", where=READY)
@guard("_memory", "now < came + NEAR and ", "", where=READY)
@guard(
    "_elsewhere",
    "if call('HGET', P .. 'memory:' .. name, 'model') == model and free(name, model) then",
    "if false then",
)
async def test_a_model_that_another_back_end_has_is_left_to_it_for_a_moment(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await end(lanes, "a0")
    await up(lanes, "other")
    await put(lanes, clock, "b0")
    assert await ask(lanes, backend="other") == ["b0"]
    clock.forward(1)
    await lanes.submit(job("b1", model="b"))
    pulled = await pull(lanes, models=["a", "b"], limits=TWO, memory=LONG_AGO)
    assert (pulled.jobs, pulled.look_in_us) == ([], 250_000)
    clock.forward(0.25)
    assert await ask(lanes) == ["b1"]


@guard("_elsewhere", "== model and free(name, model)", "== model")
async def test_but_not_where_that_has_no_place(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await end(lanes, "a0")
    await up(lanes, "other")
    await put(lanes, clock, "b0", "b1")
    assert await ask(lanes, 2, backend="other") == ["b0", "b1"]
    clock.forward(1)
    await lanes.submit(job("b2", model="b"))
    assert await ask(lanes) == ["b2"]


@guard("_elsewhere", "call('HGET', P .. 'memory:' .. name, 'model') == model and ", "")
async def test_nor_where_another_has_nothing_yet(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await end(lanes, "a0")
    await up(lanes, "other")
    await lanes.submit(job("b1", model="b"))
    clock.forward(0.02)
    await ask(lanes, 0, backend="other")
    assert await ask(lanes) == ["b1"]


@guard("_sending", "if memory then", "if false then")
@guard("_sending", "if memory then", "if true then")
async def test_only_of_those_that_swap_it_is_noted(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await put(lanes, clock, "a1", "a2")
    assert await ids(lanes, models=["a"]) == ["a1"]
    assert await ids_in(lanes, "memory:b") == []
    assert await ask(lanes) == ["a2"]
    assert await ids_in(lanes, "memory:b") == ["at", "model", "since"]


@guard("pull", "  if stands_in == 0 then\n    models = ", "  if true then\n    models = ")
async def test_what_another_has_just_failed_does_not_wait(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b1", "a1")
    (granted,) = (await pull(lanes, models=["b"], backend="other")).jobs
    await lanes.release(granted.id, granted.fence, 1, GivenBack("error", leave_s=2.0))
    assert await ask(lanes, left_by=["other"]) == ["b1"]


@guard("_memory", "redis.pcall('HSET', key, 'at'", "call('HSET', key, 'at'", servers_only=True)
async def test_full_memory_stops_no_pull(lanes: Lanes) -> None:
    clock = await has_a(lanes)
    await put(lanes, clock, "b0")
    assert await ask(lanes) == ["b0"]
    await put(lanes, clock, "b1")
    await end(lanes, "a0")
    async with full(lanes):
        assert await ask(lanes) == ["b1"]


@guard("_memory", "if not best then", "if false then")
async def test_a_queue_without_jobs_is_no_reason(lanes: Lanes) -> None:
    """Its due times are left over from something."""
    clock = await has_a(lanes)
    await end(lanes, "a0")
    await put(lanes, clock, "b1")
    await lanes.store.redis.delete(lanes.keys.wait("b", "fast"))
    assert await ask(lanes) == []
