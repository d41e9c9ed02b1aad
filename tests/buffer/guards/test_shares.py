"""pull: owners with a share of a back end, what back ends leave to one another, and how much is done at once."""

from __future__ import annotations

from typing import Any

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.jobs import ids, job, ready, running

FOUR = Limits(slots=4)
HALF = {"owner": "key:a", "share": 500}
MAY = "may(j, need) and not sending.waits_behind(j.lane, need.prefill)"
HERE = f"    if {MAY} then\n      grant(j)\n    else\n      "


async def _owned(lanes: Lanes, *names: str, **fields: Any) -> None:
    for name in names:
        await lanes.submit(job(name, **{"lane": "normal", "kv": 0, "prefill": 0, **HALF, **fields}))


@guard("pull", "elseif j and places.over(j, credit.slots) then", "elseif false then")
async def test_an_owner_over_its_share_is_passed_by_others(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _owned(lanes, "a", "b", "c")
    clock.forward(1)
    await _owned(lanes, "other", owner="key:b", share=0)
    assert set(await ids(lanes, 3, limits=FOUR)) == {"a", "b", "other"}


@guard("_owners", "share > 0 and (places", "(places")
async def test_an_owner_without_a_share_has_all_places(lanes: Lanes) -> None:
    await ready(lanes)
    await _owned(lanes, "a", "b", "c", share=0)
    assert len(await ids(lanes, 3, limits=FOUR)) == 3


@guard("_owners", "if share > 0 and not places then", "if false then")
async def test_the_jobs_of_an_owner_that_run_count(lanes: Lanes) -> None:
    await ready(lanes)
    await _owned(lanes, "a", "b")
    assert len(await ids(lanes, 2, limits=FOUR)) == 2
    await _owned(lanes, "c")
    await _owned(lanes, "large", owner="key:b", share=0, kv=900)
    await running(lanes, "first", kv=200)
    assert await ids(lanes, 2, limits=Limits(slots=4, kv=1000)) == []


@guard("_owners", "    if places then\n", "    if false then\n")
async def test_those_that_are_granted_with_it_count(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _owned(lanes, "a", "b", "c")
    clock.forward(1)
    await _owned(lanes, "other", owner="key:b", share=0)
    assert "c" not in await ids(lanes, 3, limits=FOUR)


@guard("_owners", "math.ceil(share * slots / 1000)", "math.floor(share * slots / 1000)")
async def test_a_share_is_of_one_place_at_least(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _owned(lanes, "a", share=100)
    clock.forward(1)
    await _owned(lanes, "other", owner="key:b", share=0)
    assert await ids(lanes, 1, limits=FOUR) == ["a"]


@guard("pull", " and alone(j.owner, others) then", " then")
async def test_a_place_that_others_wait_for_is_not_theirs(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "first", kv=200, **HALF)
    await _owned(lanes, "b", "c")
    await _owned(lanes, "large", owner="key:b", share=0, kv=900)
    assert await ids(lanes, 3, limits=Limits(slots=4, kv=1000)) == ["b"]


@guard("_owners", "if other ~= owner then", "if true then")
async def test_what_nobody_else_waits_for_is_theirs(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "first", kv=200, **HALF)
    await _owned(lanes, "large", kv=900)
    await _owned(lanes, "b", "c")
    assert set(await ids(lanes, 3, limits=Limits(slots=4, kv=1000))) == {"b", "c"}


@guard("pull", "if #granted < want and alone", "if alone")
async def test_those_that_get_what_is_left_are_no_more_than_were_wanted(lanes: Lanes) -> None:
    await ready(lanes)
    await _owned(lanes, *"abc", share=100)
    assert len(await ids(lanes, 2, limits=FOUR)) == 2


async def test_and_no_more_than_there_are_slots(lanes: Lanes) -> None:
    await ready(lanes)
    await _owned(lanes, *"abcdef", share=100, lane="fast")
    assert len(await ids(lanes, 6, limits=FOUR)) == 4


@guard("pull", "may(j, need)", "true", where=HERE + "bar")
async def test_and_only_those_that_fit(lanes: Lanes) -> None:
    await ready(lanes)
    await _owned(lanes, *"abc", share=100, kv=600)
    assert len(await ids(lanes, 3, limits=Limits(slots=4, kv=1000))) == 1


@guard("pull", " or #over >= MOST_OVER\n", "\n")
async def test_so_many_that_are_over_their_share_are_looked_at(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _owned(lanes, *(f"j{number}" for number in range(130)), share=100)
    clock.forward(1)
    await lanes.submit(job("other", lane="slow", owner="key:b", user="v"))
    assert len(await ids(lanes, 1, limits=FOUR)) == 1
    assert await ids(lanes, 1, limits=FOUR) == ["j1"]


@guard("_queues", "if by_turn then", "if false then")
async def test_behind_many_of_one_user_the_next_user_is_found(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await _owned(lanes, *(f"j{number}" for number in range(140)), share=100)
    clock.forward(1)
    await _owned(lanes, "first of another", share=100, user="v")
    await _owned(lanes, "other", owner="key:b", share=0, user="v")
    assert await ids(lanes, 2, limits=FOUR) == ["j0", "other"]


@guard("_queues", "score < best_score)", "false)", where="found or score < best_score)")
async def test_the_next_is_that_of_the_lowest_score_of_all_queues(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "first", long=True)
    await lanes.submit(job("large", long=True))
    clock.forward(1)
    await lanes.submit(job("a", lane="slow"))
    clock.forward(1)
    await lanes.submit(job("b", lane="normal"))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == ["a"]


@guard("_queues", "due < best_due)", "false)")
async def test_the_lowest_due_of_all_models_counts(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("late", user="v", max_wait_us=9_000_000, offset_us=9_000_000))
    await lanes.submit(job("due", model="n", max_wait_us=1_000_000, offset_us=9_000_000))
    clock.forward(2)
    await lanes.submit(job("a"))
    assert await ids(lanes, models=["m", "n"]) == ["due"]


@guard("_seek", "if not looked[string.sub(top[i], from)] then", "if true then")
async def test_what_was_looked_at_is_not_looked_at_again(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "first", long=True)
    await lanes.submit(job("large", long=True))
    await lanes.submit(job("small"))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == ["small"]


@guard("_seek", "if #top < 2 * (more + 1) then", "if true then")
async def test_behind_two_that_are_due_and_do_not_fit_the_next_of_their_lane_is_found(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "first", long=True)
    for id in ("large", "larger"):
        await lanes.submit(job(id, lane="slow", long=True, max_wait_us=1_000_000, offset_us=9_000_000))
    clock.forward(3)
    await lanes.submit(job("small", lane="slow", offset_us=9_000_000))
    await lanes.submit(job("a", lane="normal"))
    assert await ids(lanes, 4, limits=Limits(slots=9, long=1)) == ["a", "small"]


async def test_behind_many_that_were_looked_at_the_next_that_is_due_is_found(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "runs", kv=0, prefill=0, **{**HALF, "share": 100})
    for number in range(20):
        await _owned(lanes, f"j{number}", share=100, max_wait_us=1_100_000 + number)
    await _owned(lanes, "head", share=100, max_wait_us=1_000_000)
    await lanes.submit(job("due", lane="slow", user="v", max_wait_us=1_500_000, offset_us=60_000_000))
    clock.forward(3)
    await _owned(lanes, "late", owner="key:c", share=0)
    assert await ids(lanes, limits=FOUR) == ["due"]
