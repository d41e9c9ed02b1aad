"""One connection for the commands of many: order, errors in their place, and who has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis import exceptions as errors
from redis.asyncio import Redis

from buffer import wires
from buffer.wires import LARGE, Wires
from tests.rig.redis_server import RedisServer


@pytest.fixture
async def ways(redis_server: RedisServer) -> AsyncIterator[Wires]:
    client = Redis.from_url(redis_server.url, protocol=2)
    ways = Wires(client)
    yield ways
    await ways.aclose()
    await client.aclose()


async def _connections(ways: Wires) -> int:
    (told,) = await ways.send([("CLIENT", "LIST")], 5)
    return int(told.count(b"\n"))


async def test_all_callers_share_a_connection_and_each_has_its_own_replies(ways: Wires) -> None:
    before = await _connections(ways)
    got = await asyncio.gather(*(ways.send([("ECHO", str(i)), ("ECHO", "x")], 5) for i in range(50)))
    assert got == [[str(i).encode(), b"x"] for i in range(50)]
    assert await _connections(ways) == before


async def test_an_error_stands_in_its_place(ways: Wires) -> None:
    first, second, third = await ways.send([("ECHO", "a"), ("NOSUCH",), ("ECHO", "b")], 5)
    assert (first, third) == (b"a", b"b")
    assert isinstance(second, errors.ResponseError)


async def test_the_reply_for_one_who_has_left_is_nobody_elses(ways: Wires) -> None:
    leaving = asyncio.create_task(ways.send([("ECHO", "left")], 5))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await ways.send([("ECHO", "stays")], 5) == [b"stays"]
    assert leaving.cancelled()


async def test_what_waits_holds_up_nobody(ways: Wires) -> None:
    waiting = asyncio.create_task(ways.wait([("BLPOP", "none", 1)], 5))
    await asyncio.sleep(0)
    assert await ways.send([("ECHO", "a")], 5) == [b"a"]
    assert not waiting.done()
    assert await waiting == [None]


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 100])
async def test_a_wait_that_is_given_up_costs_its_connection(ways: Wires, turns: int) -> None:
    """Also while that is only being made."""
    before = await _connections(ways)
    waiting = asyncio.create_task(ways.wait([("BLPOP", "none", 30)], 35))
    while await _connections(ways) == before:
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, 5)
    while await _connections(ways) > before:
        await asyncio.sleep(0.01)


async def test_large_arguments_have_a_connection_of_their_own(ways: Wires) -> None:
    blob = b"x" * (LARGE + 1)
    before = await _connections(ways)
    assert await ways.send([("SET", "wire:large", blob), ("STRLEN", "wire:large"), ("DEL", "wire:large")], 5) == [
        True,
        len(blob),
        1,
    ]
    assert await _connections(ways) == before + 1


async def test_no_answer_in_time(ways: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one gets a connection of its own, and does not wait for the one before."""
    monkeypatch.setattr(wires, "TICK_S", 0.02)
    assert await ways.send([("ECHO", "a")], 5) == [b"a"]
    slow = asyncio.create_task(ways.send([("BLPOP", "none", 30)], 0.1))
    with pytest.raises(TimeoutError):
        await slow
    assert await ways.send([("ECHO", "b")], 5) == [b"b"]


async def test_a_connection_that_breaks_fails_what_is_under_way(ways: Wires) -> None:
    (me,) = await ways.send([("CLIENT", "ID")], 5)
    slow = asyncio.create_task(ways.send([("BLPOP", "none", 30)], 35))
    await asyncio.sleep(0)
    assert await ways.wait([("CLIENT", "KILL", "ID", me)], 5) == [1]
    with pytest.raises(errors.ConnectionError):
        await slow
    assert await ways.send([("ECHO", "again")], 5) == [b"again"]


async def test_whoever_is_told_is_told_in_order_and_once(ways: Wires) -> None:
    told: list[object] = []
    assert not ways.tell([("ECHO", "too early")], 5, told.append), "There is no connection yet."
    assert await ways.send([("ECHO", "a")], 5) == [b"a"]
    assert ways.tell([("ECHO", "b"), ("NOSUCH",)], 5, told.append)
    assert ways.tell([("ECHO", "c")], 5, told.append)
    assert await ways.send([("ECHO", "d")], 5) == [b"d"]
    (first, second) = told
    assert isinstance(first, list)
    assert first[0] == b"b"
    assert isinstance(first[1], errors.ResponseError)
    assert second == [b"c"]


async def test_whoever_is_told_is_told_of_a_failure_too(ways: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "TICK_S", 0.02)
    told: list[object] = []
    (me,) = await ways.send([("CLIENT", "ID")], 5)
    assert ways.tell([("BLPOP", "none", 30)], 35, told.append)
    assert await ways.wait([("CLIENT", "KILL", "ID", me)], 5) == [1]
    while not told:
        await asyncio.sleep(0.01)
    assert told == [None]
    assert not ways.tell([("ECHO", "closed")], 5, told.append)
    assert await ways.send([("ECHO", "again")], 5) == [b"again"]
    assert ways.tell([("BLPOP", "none", 30)], 0.1, told.append)
    while told != [None, None]:
        await asyncio.sleep(0.01)
    assert await ways.send([("ECHO", "in time")], 5) == [b"in time"]


async def test_a_defect_in_what_is_told_costs_nobody_else_his_answer(ways: Wires) -> None:
    def defect(_: object) -> None:
        raise ZeroDivisionError

    assert await ways.send([("ECHO", "a")], 5) == [b"a"]
    assert ways.tell([("ECHO", "b")], 5, defect)
    assert await ways.send([("ECHO", "c")], 5) == [b"c"]


async def test_what_the_server_pushes_is_nobodys_answer(redis_server: RedisServer) -> None:
    client = Redis.from_url(redis_server.url, protocol=3)
    ways = Wires(client)
    await ways.send([("CLIENT", "TRACKING", "ON", "BCAST")], 5)
    for word in ("a", "b"):
        got = await asyncio.gather(*(ways.send([("SET", "pushed", word), ("ECHO", word)], 5) for _ in range(5)))
        assert [echoed for _, echoed in got] == [word.encode()] * 5
    await ways.aclose()
    await client.aclose()
