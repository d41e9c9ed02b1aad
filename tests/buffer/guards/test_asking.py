"""ask, keep: who asks the same waits for one job, until its answer has ended."""

from __future__ import annotations

from buffer.cache import Claim, Flight, Shelf
from buffer.cached import Cached
from buffer.keys import DONE_JOB_S, answers
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.shelves import DATA, ONE, YES, keep, kept, shelf_of

LAND = "call('HGET', flight, 'job') == ARGV[8]"
MADE = "if before[1] and tonumber(before[1]) <= purged(model) then"


async def _ask(shelf: Shelf, job: str, *, reads: bool = True) -> Cached | Flight | None:
    """Its only client has the job's name."""
    return await shelf.ask(ONE, Claim(job, "default", job), reads=reads)


async def _land(shelf: Shelf, lanes: Lanes, job: str) -> None:
    await shelf.land(ONE, DATA, age_us=0, job=job, lanes=lanes, failed=False)


async def _left(shelf: Shelf, job: str, client: str) -> int:
    args = [0, job, client, "left", DONE_JOB_S]
    return int(await shelf.store.script("leave", keys=[shelf.flight(ONE.digest)], args=args))


async def _under_way(shelf: Shelf) -> int:
    redis = shelf.store.redis
    return len([key async for key in redis.scan_iter(match=f"{answers(shelf.store.prefix)}flight:*")])


@guard("ask", "if ARGV[4] == '1' then", "if false then")
@guard("ask", "if kept then", "if false then")
async def test_what_is_kept_is_given(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes)
    await keep(shelf, ONE)
    assert await _ask(shelf, "a") == YES


@guard("ask", "if ARGV[4] == '1' then", "if true then")
async def test_not_to_whom_it_will_not_do(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes)
    await keep(shelf, ONE)
    assert await _ask(shelf, "a", reads=False) is None


@guard("ask", "if kept then", "if true then")
@guard("ask", "if ARGV[5] == '' then", "if true then")
@guard("ask", MADE, "if before[1] then")
@guard("ask", "before[1] and ", "")
async def test_who_asks_what_is_being_answered_waits_for_that(lanes: Lanes) -> None:
    shelf, clock = shelf_of(lanes)
    assert await _ask(shelf, "a") is None
    clock.forward(1)
    assert await _ask(shelf, "b") == Flight("a", "default", 1_000_000)


@guard("ask", "if ARGV[5] == '' then", "if false then")
async def test_who_only_looks_claims_nothing(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes)
    assert await kept(shelf, ONE) == [False]
    assert await _under_way(shelf) == 0


@guard("ask", MADE, "if false then")
@guard("ask", "<= purged(model)", "< purged(model)")
async def test_nobody_joins_a_job_of_before_a_purge(lanes: Lanes) -> None:
    """Also of the same instant."""
    shelf, _ = shelf_of(lanes)
    await _ask(shelf, "a")
    await shelf.purge("m")
    assert await _ask(shelf, "b") is None


@guard("ask", "call('RENAME', flight, flight .. ':' .. before[2])", "call('DEL', flight)")
async def test_the_last_client_of_a_job_of_before_a_purge_ends_it(lanes: Lanes) -> None:
    shelf, clock = shelf_of(lanes)
    for job in "ab":
        await _ask(shelf, job)
    clock.forward(1)
    await shelf.purge("m")
    clock.forward(1)
    await _ask(shelf, "c")
    assert [await _left(shelf, "a", client) for client in "ab"] == [0, 1]
    assert await _left(shelf, "c", "c") == 1


@guard("keep", "if ARGV[8] ~= '' then", "if false then")
@guard("keep", "if ARGV[8] ~= '' then", "if ARGV[8] == '' then")
@guard("keep", LAND, "false")
async def test_an_answer_that_has_ended_is_waited_for_no_more(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes)
    await _ask(shelf, "a")
    await _land(shelf, lanes, "a")
    assert await _under_way(shelf) == 0
    assert await _ask(shelf, "b", reads=False) is None


@guard("keep", LAND, "true")
async def test_one_that_another_job_has_replaced_ends_for_its_own_clients(lanes: Lanes) -> None:
    shelf, clock = shelf_of(lanes)
    await _ask(shelf, "a")
    clock.forward(1)
    await shelf.purge("m")
    clock.forward(1)
    await _ask(shelf, "b")
    await _land(shelf, lanes, "a")
    assert await _under_way(shelf) == 1
    assert await _ask(shelf, "c", reads=False) == Flight("b", "default", 0)
