"""pull: what back ends know of one another, and jobs that wait for the first of their shared prefix."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Limits, Piece
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.places import FOUR, two, up
from tests.buffer.guards.steps import change, give_back, ids_in
from tests.buffer.guards.test_full import full
from tests.buffer.jobs import Clock, ids, job, pull, ready

LEADER = "if leader[1] == 'running' and leader[2] == backend and leader[4] ~= leader[3] then"


@guard("_elsewhere", "if all[i] ~= backend then", "if true then")
async def test_no_back_end_waits_for_itself(lanes: Lanes) -> None:
    """It has just been given one, which it had not when its places were counted."""
    await two(lanes)
    await up(lanes, "other", up=False)
    for id in "ac":
        await lanes.submit(job(id))
    assert await ids(lanes, 2, limits=FOUR) == ["a", "c"]


@guard("peek", "if ARGV[2] ~= '' then", "if true then")
@guard("peek", "if ARGV[2] ~= '' then", "if false then")
async def test_who_only_peeks_has_them_noted_too(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.peek(["m"])
    assert await ids_in(lanes, "places:m") == []
    await lanes.peek(["m"], backend="b", slots=4)
    assert await ids_in(lanes, "places:m") == ["b"]


@guard("pull", "stands_in == 0 and credit.slots or 0", "credit.slots")
async def test_nobody_waits_for_one_that_works_in_place_of_others_only(lanes: Lanes) -> None:
    await two(lanes)
    await lanes.submit(job("a"))
    assert await ids(lanes, limits=FOUR) == ["a"]
    await pull(lanes, 0, backend="other", left_by=["b"], limits=FOUR)
    await lanes.submit(job("b"))
    assert await ids(lanes, limits=FOUR) == ["b"]


@guard("_places", "if tonumber(call('HGET', key, backend) or '') ~= slots then", "if false then")
async def test_places_are_noted_and_their_changes(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    for slots in (4, 6):
        await pull(lanes, 0, limits=Limits(slots=slots))
        assert await lanes.store.redis.hget(lanes.keys.places("m"), "b") == str(slots).encode()
    assert await ids_in(lanes, "places:m") == ["b"]
    assert 0 < await lanes.store.redis.ttl(lanes.keys.places("m")) <= 3600


@guard("_places", "if tonumber(call('HGET', key, backend) or '') ~= slots then", "if true then")
async def test_they_are_not_written_where_nothing_changed(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await pull(lanes, 0)
    await lanes.store.redis.expire(lanes.keys.places("m"), 1000)
    await pull(lanes, 0)
    assert await lanes.store.redis.ttl(lanes.keys.places("m")) <= 1000


async def _leads(lanes: Lanes, clock: Clock) -> Piece:
    """A job that is being read at b; another shares its beginning."""
    await lanes.submit(job("leader", lane="normal"))
    clock.forward(1)
    (granted,) = (await pull(lanes, limits=FOUR)).jobs
    await lanes.submit(job("sibling", lane="normal", behind="leader"))
    return Piece("leader", granted.fence, 0)


@guard("_elsewhere", "leader[4] ~= leader[3]", "true", where=LEADER)
@guard("_elsewhere", LEADER, "if false then")
async def test_siblings_wait_for_the_first_token_of_the_first(lanes: Lanes) -> None:
    clock = await ready(lanes)
    leader = await _leads(lanes, clock)
    clock.forward(1)
    pulled = await pull(lanes, limits=FOUR)
    assert (pulled.jobs, pulled.look_in_us) == ([], 9_000_000)
    await lanes.prefilled([leader])
    assert await ids(lanes, limits=FOUR) == ["sibling"]


async def test_they_do_not_wait_for_ever(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _leads(lanes, clock)
    clock.forward(10)
    assert await ids(lanes, limits=FOUR) == ["sibling"]


@guard("_elsewhere", "leader[2] == backend and ", "", where=LEADER)
async def test_elsewhere_they_need_not_wait(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _leads(lanes, clock)
    assert await ids(lanes, backend="other", limits=FOUR) == ["sibling"]


@guard("_elsewhere", "leader[1] == 'running' and ", "", where=LEADER)
async def test_nor_for_one_that_has_gone_back_to_its_place(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _leads(lanes, clock)
    await change(lanes, "leader", st="held")
    assert await ids(lanes, limits=FOUR) == ["sibling"]


@guard("pull", "or left_to_others(j)", "or false")
@guard("pull", "if us > 0 then", "if false then")
@guard("pull", "if at and at >= now and (not look_at or at < look_at) then", "if false then")
@guard("pull", "at and at >= now", "at >= now", where="if at and at >= now and (not look_at or at < look_at) then")
@guard(
    "pull",
    "(not look_at or at < look_at)",
    "not look_at",
    where="if at and at >= now and (not look_at or at < look_at) then",
)
async def test_it_is_told_when_to_look_for_the_first_of_them(lanes: Lanes) -> None:
    clock = await two(lanes)
    await lanes.submit(job("a"))
    assert await ids(lanes, limits=FOUR) == ["a"]
    await lanes.submit(job("near", near="other", offset_us=0))
    await lanes.submit(job("any", offset_us=1))
    pulled = await pull(lanes, limits=FOUR)
    assert (pulled.jobs, pulled.look_in_us) == ([], 25_000)
    clock.forward(0.025)
    (granted,) = (await pull(lanes, limits=FOUR)).jobs
    assert granted.id == "any"


@guard("pull", "stands_in == 0 and elsewhere", "elsewhere")
async def test_who_stands_in_leaves_nothing_to_others(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _leads(lanes, clock)
    (granted,) = (await pull(lanes, backend="x", limits=FOUR)).jobs
    await give_back(lanes, granted, "error", leave_s=2.0)
    assert await ids(lanes, limits=FOUR, left_by=["x"]) == ["sibling"]


@guard("_places", "redis.pcall('HSET', key, backend", "call('HSET', key, backend", servers_only=True)
async def test_full_memory_stops_no_pull_for_another_model(lanes: Lanes) -> None:
    await ready(lanes)
    await pull(lanes)
    await lanes.submit(job("a"))
    async with full(lanes):
        assert await ids(lanes) == ["a"]


@guard("pull", "left_count >= MOST_LEFT or ", "")
async def test_no_more_than_sixty_four_are_left_by_one_pull(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _leads(lanes, clock)
    for number in range(63):
        await lanes.submit(job(f"s{number:02}", lane="normal", behind="leader"))
    clock.forward(0.1)
    await lanes.submit(job("free", lane="normal"))
    assert await ids(lanes, limits=Limits(slots=9)) == []
