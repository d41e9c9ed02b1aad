"""What an idempotency key stands for."""

from __future__ import annotations

from typing import Any

from buffer.keys import claimed
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard

ITS_JOB = "if call('HGET', key, 'job') ~= ARGV[2] then"
STANDS = "local key, call = KEYS[1], redis.call\n" + ITS_JOB
ASIDE = "key = key .. ':' .. ARGV[2]\n  " + ITS_JOB


async def _claim(
    lanes: Lanes, job: str, *, request: str = "r", client: str = "c", det: int = 0, ended: str = "", at: int = 0
) -> Any:
    args = [at, job, "default", request, client, det, 60, ended]
    return await lanes.store.script("claim", keys=[claimed(lanes.store.prefix, "k")], args=args)


async def _leave(lanes: Lanes, job: str, why: str, client: str = "c") -> Any:
    args = [0, job, client, why, 90]
    return await lanes.store.script("leave", keys=[claimed(lanes.store.prefix, "k")], args=args)


@guard("_claim", "if v[1] and v[3] ~= request then", "if false then")
async def test_a_key_stands_for_one_request(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    assert await _claim(lanes, "b", request="another") == [b"other"]


@guard("_claim", "v[1] and v[3] ~= request", "v[3] ~= request")
async def test_a_key_that_is_new_stands_for_any(lanes: Lanes) -> None:
    assert await _claim(lanes, "a") == [b"new"]


@guard("_claim", "if v[1] and v[1] ~= instead then", "if false then")
async def test_the_same_request_again_is_the_same_job(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    assert (await _claim(lanes, "b"))[:3] == [b"job", b"a", b"default"]


@guard("_claim", "v[1] and v[1] ~= instead", "v[1]")
async def test_one_that_gave_no_answer_is_asked_anew(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    assert await _claim(lanes, "b", ended="a") == [b"new"]


@guard("_core", "if now == 0 then", "if false then")
async def test_how_long_ago_it_was_claimed_is_told_by_the_stores_clock(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    now = int((await lanes.store.redis.time())[0])
    assert int((await _claim(lanes, "b", at=(now + 60) * 1_000_000))[3]) < 120_000_000


@guard("_claim", "if stays then", "if true then")
@guard("claim", "ARGV[6] == '1'", "true")
async def test_the_last_client_that_leaves_ends_the_job(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    assert await _leave(lanes, "a", "left") == 1


@guard("_claim", "if stays then", "if false then")
@guard("claim", "ARGV[6] == '1'", "false")
async def test_not_one_that_is_detached(lanes: Lanes) -> None:
    await _claim(lanes, "a", det=1)
    assert await _leave(lanes, "a", "left") == 0


@guard("leave", "if call('HEXISTS', key, 'detached') == 1 then", "if false then")
async def test_nor_one_that_somebody_else_detached(lanes: Lanes) -> None:
    await _claim(lanes, "a", det=1)
    await _claim(lanes, "b", client="d")
    assert [await _leave(lanes, "a", "left", client) for client in "cd"] == [0, 0]


@guard("leave", ITS_JOB, "if false then", where=STANDS)
@guard("leave", ITS_JOB, "if false then", where=ASIDE)
async def test_who_leaves_another_job_ends_nothing(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    assert await _leave(lanes, "another", "left") == 0


@guard("leave", "if ARGV[4] == 'answered' then", "if false then")
async def test_who_has_an_answer_ends_nothing(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    assert await _leave(lanes, "a", "answered") == 0
    assert await _claim(lanes, "b") != [b"new"]


@guard("leave", "if ARGV[4] == 'failed' then", "if false then")
async def test_a_request_that_failed_is_asked_anew(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    await _claim(lanes, "a", client="d")
    assert await _leave(lanes, "a", "failed") == 0
    assert await _claim(lanes, "b") == [b"new"]


@guard("leave", "if string.sub(field, 1, 7) == 'client:' then", "if false then")
async def test_while_another_waits_nothing_ends(lanes: Lanes) -> None:
    await _claim(lanes, "a")
    await _claim(lanes, "b", client="d")
    assert await _leave(lanes, "a", "left") == 0
