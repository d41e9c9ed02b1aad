"""pull: background work that gives its place to people."""

from __future__ import annotations

from typing import Any

from buffer.control import Control
from buffer.job import End
from buffer.lanes import Lanes
from buffer.records import Granted, Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import change, give_back, length
from tests.buffer.guards.test_full import full
from tests.buffer.jobs import LEASE_S, Clock, ids, job, pull, ready

ONE, TWO = Limits(slots=1), Limits(slots=2)
ROOM = "if not goes and yields then"
LOOKS = "while flight.all.jobs >= credit.slots and looks < LOOK do"
HERE = "if ours(j) and not places.over(j, credit.slots) and not left_to_others(j) then"


async def quiet_ones(lanes: Lanes, *names: str, limits: Limits = ONE, **more: Any) -> tuple[Clock, dict[str, Granted]]:
    """Background work that takes all places, in the hands of w."""
    clock = await ready(lanes)
    await lanes.renew("w", [], LEASE_S)
    granted = {}
    for name in names:
        await lanes.submit(job(name, lane="background", **more))
        clock.forward(1)
        (granted[name],) = (await pull(lanes, limits=limits)).jobs
    return clock, granted


async def asked(lanes: Lanes, worker: str = "w") -> list[Control]:
    """Words to give a place back."""
    _, controls = await lanes.controls(worker, "0-0", 0.001)
    return [one for one in controls if isinstance(one, Control) and one.kind == "yield"]


@guard("_sending", "    if j.lane == 'background' then\n      -- Asked", "    if false then\n      -- Asked")
async def test_one_that_began_anew_is_asked_again_at_once(lanes: Lanes) -> None:
    _, granted = await quiet_ones(lanes, "quiet")
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=ONE)
    await give_back(lanes, granted["quiet"], "yield")
    (person,) = (await pull(lanes, limits=ONE)).jobs
    await lanes.settle(person.id, person.fence, 1, End("done"))
    assert await ids(lanes, limits=ONE) == ["quiet"]
    await lanes.submit(job("b"))
    await pull(lanes, 0, limits=ONE)
    assert len(await asked(lanes)) == 2


@guard("pull", "if stands_in == 0 and flight.carries('background') then", "if false then")
@guard("_flight", "if one.lane == lane then", "if false then")
@guard("_yield", "if one.lane == 'background' then", "if false then")
@guard("_flight", "if one.lane == lane then", "if one.lane ~= lane then")
@guard("_yield", "elseif told[1] == 'running' then", "elseif false then")
@guard("_yield", ROOM, "if false then")
async def test_it_is_asked_to_where_a_person_waits(lanes: Lanes) -> None:
    _, granted = await quiet_ones(lanes, "quiet")
    await pull(lanes, 0, limits=ONE)
    assert await asked(lanes) == []
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=ONE)
    assert await asked(lanes) == [Control("yield", "quiet", granted["quiet"].fence)]


@guard("_yield", "if now - (tonumber(told[4] or '') or 0) < YIELD then", "if false then")
@guard("_yield", "if now - (tonumber(told[4] or '') or 0) < YIELD then", "if told[4] then")
async def test_it_is_not_asked_twice_within_a_second(lanes: Lanes) -> None:
    clock, _ = await quiet_ones(lanes, "quiet")
    await lanes.submit(job("a"))
    for seconds, times in ((0.0, 1), (0.9, 1), (0.1, 2)):
        clock.forward(seconds)
        await pull(lanes, 0, limits=ONE)
        assert len(await asked(lanes)) == times


@guard("_yield", "not goes and ", "", where=ROOM)
async def test_one_for_each_person(lanes: Lanes) -> None:
    clock, _ = await quiet_ones(lanes, "q1", "q2", limits=TWO)
    await lanes.submit(job("a"))
    clock.forward(0.01)
    pulled = await pull(lanes, 0, limits=TWO)
    assert [control.id for control in await asked(lanes)] == ["q2"], "the last one has done least"
    assert pulled.look_in_us == 1_000_000, "it may decline"
    await pull(lanes, 0, limits=TWO)
    assert [control.id for control in await asked(lanes)] == ["q2"], "its place is on its way"
    await lanes.submit(job("b"))
    assert (await pull(lanes, 0, limits=TWO)).look_in_us == 0
    assert [control.id for control in await asked(lanes)] == ["q2", "q1"]


@guard("_yield", "return a.one.arr > b.one.arr", "return a.one.arr < b.one.arr")
async def test_the_one_that_came_last(lanes: Lanes) -> None:
    await quiet_ones(lanes, "q1", "q2", limits=TWO)
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=TWO)
    assert [control.id for control in await asked(lanes)] == ["q2"]


@guard("_yield", "goes = fits(need, room, credit)\n", "goes = true\n")
@guard("_yield", "    if goes then\n      add", "    if true then\n      add")
async def test_not_for_a_job_that_would_not_fit_even_so(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet", limits=TWO, kv=10)
    await lanes.submit(job("long", kv=80))
    assert await ids(lanes, limits=TWO) == ["long"]
    await lanes.submit(job("a", kv=50))
    await pull(lanes, 0, limits=Limits(slots=2, kv=100))
    assert await asked(lanes) == []
    await lanes.submit(job("b", kv=20))
    await pull(lanes, 0, limits=Limits(slots=2, kv=100))
    assert [control.id for control in await asked(lanes)] == ["quiet"]


@guard("_yield", ROOM, "if not goes then")
async def test_where_all_have_been_asked_nobody_is(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet")
    for name in "abc":
        await lanes.submit(job(name))
    await pull(lanes, 0, limits=ONE)
    assert len(await asked(lanes)) == 1


@guard("pull", "if j.lane ~= 'background' then\n        short", "if true then\n        short")
async def test_not_for_other_background_work(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet", kv=60)
    await lanes.submit(job("more", lane="background", kv=60))
    await pull(lanes, 1, limits=Limits(slots=5, kv=100))
    assert await asked(lanes) == []


@guard("pull", "        short[#short + 1] = {lane", "        local _ = {lane")
async def test_for_memory_too(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet", kv=60)
    await lanes.submit(job("a", kv=60))
    assert await ids(lanes, limits=Limits(slots=5, kv=100)) == []
    assert [control.id for control in await asked(lanes)] == ["quiet"]


@guard("_yield", "'NOMKSTREAM', ", "")
async def test_of_a_worker_that_is_gone_nothing_is_asked(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("quiet", lane="background"))
    assert await ids(lanes, limits=ONE, worker="gone") == ["quiet"]
    clock.forward(1)
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=ONE)
    assert await length(lanes, "ctl:gone") == 0


@guard("_yield", "told[1] == 'running'", "true")
async def test_only_what_runs_is_asked(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet")
    await change(lanes, "quiet", st="held")
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=ONE)
    assert await asked(lanes) == []


@guard("pull", "flight.all.jobs >= credit.slots and ", "", where=LOOKS)
async def test_where_places_are_left_nobody_else_is_looked_at(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet", limits=TWO, kv=60)
    await lanes.submit(job("a", kv=60))
    await pull(lanes, 0, limits=Limits(slots=2, kv=100))
    assert await asked(lanes) == [], "whoever wants nothing does not look at who would get it"


@guard("pull", "ours(j) and ", "", where=HERE)
@guard("pull", HERE, "if false then")
async def test_not_for_one_that_may_not_go_there(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet")
    await lanes.submit(job("a", lane="slow"))
    await pull(lanes, 0, limits=ONE, only=["fast", "slow"], backend="b")
    assert len(await asked(lanes)) == 1
    await lanes.submit(job("left"))
    await change(lanes, "left", left="b", left_until="9" * 16)
    await lanes.cancel("a")
    await change(lanes, "quiet", **{"yield": "0"})
    await pull(lanes, 0, limits=ONE)
    assert len(await asked(lanes)) == 1


@guard("pull", "not places.over(j, credit.slots) and ", "", where=HERE)
async def test_not_for_one_whose_owner_has_enough(lanes: Lanes) -> None:
    own = {"owner": "key:a", "share": 500}
    await quiet_ones(lanes, "quiet", limits=TWO)
    await lanes.submit(job("first", **own))
    assert await ids(lanes, limits=TWO) == ["first"]
    await lanes.submit(job("second", **own))
    await pull(lanes, 0, limits=TWO)
    assert await asked(lanes) == []


@guard("pull", " and not left_to_others(j) then\n        short", " then\n        short")
async def test_not_for_one_that_is_left_to_others(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet", limits=TWO)
    await lanes.submit(job("leader"))
    assert await ids(lanes, limits=TWO) == ["leader"]
    await lanes.submit(job("sibling", behind="leader"))
    await pull(lanes, 0, limits=TWO)
    assert await asked(lanes) == []


@guard(
    "pull",
    "    if j then\n      looked[j.id] = true\n      if ours(j) and not",
    "    if true then\n      looked[j.id] = true\n      if ours(j) and not",
)
async def test_what_is_gone_is_passed_by(lanes: Lanes) -> None:
    clock, _ = await quiet_ones(lanes, "quiet")
    for name in ("gone", "a"):
        await lanes.submit(job(name))
        clock.forward(0.001)
    await lanes.store.redis.delete(lanes.keys.job("gone"))
    await pull(lanes, 0, limits=ONE)
    assert len(await asked(lanes)) == 1


@guard("pull", " and looks < LOOK do", " do")
async def test_no_more_than_sixteen_are_looked_at_for_that(lanes: Lanes) -> None:
    clock, _ = await quiet_ones(lanes, "quiet")
    for number in range(16):
        await lanes.submit(job(f"a{number:02}"))
        await change(lanes, f"a{number:02}", left="b", left_until="9" * 16)
        clock.forward(0.001)
    await lanes.submit(job("last"))
    await pull(lanes, 0, limits=ONE)
    assert await asked(lanes) == []


@guard("_yield", "redis.pcall('HSET', P .. 'job:'", "call('HSET', P .. 'job:'", servers_only=True)
async def test_where_memory_is_full_it_is_asked_all_the_same(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet")
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=ONE, worker="w", backend="none")
    async with full(lanes):
        await pull(lanes, 0, limits=ONE)


@guard("pull", "stands_in == 0 and flight.carries", "flight.carries")
async def test_who_stands_in_asks_nobody(lanes: Lanes) -> None:
    await quiet_ones(lanes, "quiet")
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=ONE, left_by=["x"])
    assert await asked(lanes) == []
