"""pull: jobs that are left to other back ends of their model."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.places import FOUR, has_loaded, two, up
from tests.buffer.jobs import ids, job, pull, ready

HOME = "if age < NEAR and j.near ~= '' and free(j.near, j.model) then"
EMPTIER = "if free(name, j.model) and taken(name) * slots < jobs * places then"
ROOM = "if not places or not jobs or jobs >= places then"


@guard("_elsewhere", HOME, "if false then")
async def test_a_job_waits_a_moment_for_the_back_end_that_holds_its_beginning(lanes: Lanes) -> None:
    clock = await two(lanes)
    await lanes.submit(job("a", near="other"))
    pulled = await pull(lanes, limits=FOUR)
    assert (pulled.jobs, pulled.waiting, pulled.look_in_us) == ([], 1, 250_000)
    clock.forward(0.249)
    assert (await pull(lanes, limits=FOUR)).look_in_us == 1000
    clock.forward(0.001)
    assert await ids(lanes, limits=FOUR) == ["a"]


@guard("_elsewhere", "if j.near == backend then", "if false then")
async def test_there_it_goes_however_full_that_is(lanes: Lanes) -> None:
    await two(lanes)
    await lanes.submit(job("a"))
    assert await ids(lanes, limits=FOUR) == ["a"]
    await lanes.submit(job("b", near="b"))
    assert await ids(lanes, limits=FOUR) == ["b"]


@guard("_elsewhere", "j.near ~= '' and free(j.near, j.model)", "j.near ~= ''", where=HOME)
async def test_not_for_one_that_is_full(lanes: Lanes) -> None:
    clock = await two(lanes)
    for name in "1234":
        await lanes.submit(job(name))
        clock.forward(1)
        assert await ids(lanes, backend="other", limits=FOUR) == [name]
    await lanes.submit(job("a", near="other"))
    assert await ids(lanes, limits=FOUR) == ["a"]


@guard("_elsewhere", "not places or ", "", where=ROOM)
async def test_not_for_one_that_never_pulled_for_the_model(lanes: Lanes) -> None:
    await ready(lanes)
    await up(lanes, "other")
    await lanes.submit(job("a", near="other"))
    assert await ids(lanes, limits=FOUR) == ["a"]


@guard("_elsewhere", "not jobs or ", "", where=ROOM)
async def test_not_for_one_of_which_nobody_tells_anything(lanes: Lanes) -> None:
    await two(lanes)
    await lanes.store.redis.delete(lanes.keys.state("other"))
    await lanes.submit(job("a", near="other"))
    assert await ids(lanes, limits=FOUR) == ["a"]


@guard("_elsewhere", "told('\"up\":true') and ", "")
async def test_not_for_one_that_is_down(lanes: Lanes) -> None:
    await two(lanes)
    await up(lanes, "other", up=False)
    await lanes.submit(job("a", near="other"))
    assert await ids(lanes, limits=FOUR) == ["a"]


@guard("_elsewhere", " and not told('\"breaker_open\":true')", "")
async def test_not_for_one_whose_breaker_is_open(lanes: Lanes) -> None:
    await two(lanes)
    await up(lanes, "other", breaker_open=True)
    await lanes.submit(job("a", near="other"))
    assert await ids(lanes, limits=FOUR) == ["a"]


@guard("_elsewhere", " and not told('\"trial\":true')", "")
async def test_not_for_one_that_is_being_tried(lanes: Lanes) -> None:
    await two(lanes)
    await up(lanes, "other", trial=True)
    await lanes.submit(job("a", near="other"))
    assert await ids(lanes, limits=FOUR) == ["a"]


@guard("_elsewhere", "not loaded or loaded == model", "true")
async def test_not_for_one_that_would_have_to_load_its_model_first(lanes: Lanes) -> None:
    await two(lanes)
    await has_loaded(lanes, "other", "another")
    await lanes.submit(job("a", near="other"))
    assert await ids(lanes, limits=FOUR) == ["a"]


@guard("pull", "if j.near ~= '' and j.near ~= backend then", "if false then")
@guard("pull", "if j.near ~= '' and j.near ~= backend then", "if j.near ~= backend then")
@guard("pull", "if j.near ~= '' and j.near ~= backend then", "if j.near ~= '' then")
async def test_elsewhere_all_of_its_prompt_is_new(lanes: Lanes) -> None:
    clock = await two(lanes)
    for name, near in (("away", "other"), ("home", "b"), ("any", "")):
        await lanes.submit(job(name, lane="normal", near=near, prompt=80))
        clock.forward(1)
        (granted,) = (await pull(lanes, limits=FOUR)).jobs
        assert granted.prefill == (80 if name == "away" else 5)


@guard("_elsewhere", "if age < EMPTIER then", "if false then")
async def test_a_job_that_just_came_goes_where_least_is_taken(lanes: Lanes) -> None:
    clock = await two(lanes)
    await lanes.submit(job("a"))
    assert await ids(lanes, limits=FOUR) == ["a"]
    await lanes.submit(job("b"))
    pulled = await pull(lanes, limits=FOUR)
    assert (pulled.jobs, pulled.look_in_us) == ([], 25_000)
    assert await ids(lanes, backend="other", limits=FOUR) == ["b"]
    await lanes.submit(job("c"))
    assert await ids(lanes, limits=FOUR) == ["c"], "as much is taken there"
    await lanes.submit(job("d"))
    clock.forward(0.025)
    assert await ids(lanes, limits=FOUR) == ["d"]


@guard("_elsewhere", "free(name, j.model) and ", "", where=EMPTIER)
async def test_it_waits_for_none_that_cannot_take_it(lanes: Lanes) -> None:
    await two(lanes)
    await lanes.submit(job("a"))
    assert await ids(lanes, limits=FOUR) == ["a"]
    await has_loaded(lanes, "other", "another")
    await lanes.submit(job("b"))
    assert await ids(lanes, limits=FOUR) == ["b"]


@guard("_elsewhere", "taken(name) * slots < jobs * places", "taken(name) < jobs", where=EMPTIER)
async def test_what_counts_is_the_share(lanes: Lanes) -> None:
    clock = await two(lanes)
    await lanes.submit(job("0"))
    await pull(lanes, 0, backend="other", limits=Limits(slots=1000))
    for name in "123":
        await lanes.submit(job(name))
        clock.forward(1)
    assert len(await ids(lanes, 4, backend="other", limits=Limits(slots=1000))) == 4
    await lanes.submit(job("a"))
    assert await ids(lanes, limits=FOUR) == ["a"]
    await lanes.submit(job("b"))
    assert await ids(lanes, limits=FOUR) == [], "4 of 1000 are less than 1 of 4"
