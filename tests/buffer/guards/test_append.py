"""append and prefilled."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Piece
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import give_back, ids_in, restored, taken_over
from tests.buffer.jobs import carried, chunk, kinds, pull, ready, record, running


async def _events(lanes: Lanes) -> list[str]:
    return [entry_id for entry_id, kind in await kinds(lanes, "a") if kind == "ev"]


@guard("append", "not v[1] or current < fence", "v[1] and current < fence")
async def test_append_to_a_job_without_a_record_is_an_orphans(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.append([chunk(granted, 1, "a")._replace(id="none")]) == ["orphan"]


@guard("append", "not v[1] or current < fence", "not v[1]")
async def test_append_above_the_records_fence_is_an_orphans(lanes: Lanes) -> None:
    granted = await running(lanes)
    ahead = chunk(granted, 1, "a")._replace(fence=granted.fence + 1)
    assert await lanes.append([ahead]) == ["orphan"]
    assert await _events(lanes) == []


@guard("append", "heir(key, ARGV[i + 1], v[2]) and 'orphan' or 'lost'", "'lost'")
async def test_append_by_whom_the_restored_job_waits_for_is_an_orphans(lanes: Lanes) -> None:
    granted = await restored(lanes)
    assert await lanes.append([chunk(granted, 1, "a")]) == ["orphan"]


@guard("append", "elseif v[1] ~= 'running' then", "elseif false then")
async def test_append_to_a_job_given_back_is_lost(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted)
    assert await lanes.append([chunk(granted, 2, "a")]) == ["lost"]
    assert await _events(lanes) == []


@guard("append", "elseif current > fence then", "elseif false then")
async def test_append_below_the_records_fence_is_lost(lanes: Lanes) -> None:
    first, _ = await taken_over(lanes)
    assert await lanes.append([chunk(first, 1, "a")]) == ["lost"]
    assert await _events(lanes) == []


@guard("append", "tonumber(v[3]) + 1 ~= first", "false")
async def test_append_leaves_no_hole(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.append([chunk(granted, 2, "b")]) == [0]
    assert await _events(lanes) == []


@guard("append", "tonumber(v[3]) + 1 ~= first", "tonumber(v[3]) + 1 < first")
async def test_append_again_adds_nothing(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.append([chunk(granted, 1, "a", "b")]) == [2]
    assert await lanes.append([chunk(granted, 1, "a", "b", "c")]) == [2]
    assert await _events(lanes) == [f"{granted.fence}-2"]


@guard("append", "'NOMKSTREAM', ", "")
async def test_append_makes_no_reply_key(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.store.redis.delete(lanes.keys.reply("a"))
    await lanes.append([chunk(granted, 1, "a")])
    assert await kinds(lanes, "a") == []


@guard("append", "HSETNX", "HSET")
async def test_the_first_words_of_a_job_are_those_of_its_first_attempt(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a")])
    began = clock.now
    clock.forward(1)
    await give_back(lanes, granted, n=2)
    (again,) = (await pull(lanes)).jobs
    await lanes.append([chunk(again, 1, "a")])
    assert (await record(lanes, "a"))["first"] == str(began)


@guard("prefilled", "HSETNX", "HSET")
async def test_its_first_token_is_too(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a")])
    began = clock.now
    clock.forward(1)
    await lanes.prefilled([Piece("a", granted.fence, 0)])
    assert (await record(lanes, "a"))["first"] == str(began)


@guard("prefilled", "j and ", "")
async def test_the_first_token_of_a_job_that_is_gone_counts_for_nothing(lanes: Lanes) -> None:
    assert await lanes.prefilled([Piece("none", 1, 0)]) == 0


@guard("prefilled", "j.st == 'running' and ", "")
async def test_the_first_token_of_a_job_given_back_takes_no_credit(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted)
    assert await lanes.prefilled([Piece("a", granted.fence, 0)]) == 0
    assert await carried(lanes) == {}


@guard("prefilled", "j.fence == tonumber(ARGV[i + 1]) and ", "")
async def test_the_first_token_of_an_earlier_attempt_frees_nothing(lanes: Lanes) -> None:
    first, second = await taken_over(lanes, lane="slow")
    assert await lanes.prefilled([Piece("a", first.fence, 0)]) == 0
    assert (await carried(lanes))["prefill"] == "5"
    assert await lanes.prefilled([Piece("a", second.fence, 0)]) == 1
    assert (await carried(lanes))["prefill"] == "0"


@guard("prefilled", " and j.read ~= j.fence", "")
async def test_the_first_token_counts_once(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert [await lanes.prefilled([Piece("a", granted.fence, 0)]) for _ in range(2)] == [1, 0]
    assert await ids_in(lanes, "load:b") == ["a"]
