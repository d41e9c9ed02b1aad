"""Readers of reply keys: many by one look, none when nobody reads, through outages, and each to an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buffer.access import StoreUnavailable
from buffer.job import End, Event
from buffer.lanes import Lanes
from buffer.listening import ENTRIES, Listener, Listening
from buffer.records import Granted
from buffer.store import Store
from buffer.unread import PAUSE_ABOVE
from tests.buffer.entries import text
from tests.buffer.jobs import chunk, job, running
from tests.buffer.running import beside

DONE = End("done")


async def read(listener: Listener) -> tuple[str, End]:
    heard: list[Event] = []
    async with asyncio.timeout(20):
        while not isinstance(got := await listener.next(), End):
            heard += got
    return text(heard), got


def opened(listening: Listening, lanes: Lanes, id: str, **more: Any) -> Listener:
    listener = listening.open(lanes, id, **more)
    assert listener is not None
    return listener


async def says(lanes: Lanes, granted: Granted, n: int, *words: str) -> int:
    """Appends words behind number ``n``, each as an entry; the last one's number."""
    for word in words:
        n += 1
        await lanes.append([chunk(granted, n, word)])
    return n


@pytest.fixture
def listening() -> Listening:
    return Listening(tick_s=0.01)


async def test_an_answer_as_it_is_said_and_once_more(lanes: Lanes, listening: Listening) -> None:
    granted = await running(lanes, "a")
    async with beside(listening.run):
        first = opened(listening, lanes, "a")
        n = await says(lanes, granted, 0, "one ", "two ")
        assert text(await _events(first)) in ("one ", "one two ")
        n = await says(lanes, granted, n, "three")
        await lanes.settle("a", granted.fence, n + 1, DONE)
        assert (await read(first))[1] == DONE
        assert await read(opened(listening, lanes, "a")) == ("one two three", DONE)
        assert await read(opened(listening, lanes, "a", whole=True)) == ("one two three", DONE)
        assert first.end_id == f"{granted.fence}-4"


async def _events(listener: Listener) -> list[Event]:
    async with asyncio.timeout(10):
        got = await listener.next()
    assert not isinstance(got, End)
    return got


async def test_a_long_answer_takes_few_looks(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    granted = await running(lanes, "a")
    n = await says(lanes, granted, 0, *[f"{number} " for number in range(3 * ENTRIES)])
    await lanes.settle("a", granted.fence, n + 1, DONE)
    looks = _counted(lanes.store, monkeypatch)
    listening = Listening(tick_s=5)
    async with beside(listening.run):
        said, end = await read(opened(listening, lanes, "a"))
    assert said.split() == [str(number) for number in range(3 * ENTRIES)]
    assert end == DONE
    assert len(looks) == 4


def _counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands each exchange has from now on."""
    looks: list[int] = []
    exchange = store.exchange

    async def counted(commands: Any, **more: Any) -> Any:
        looks.append(len(commands))
        return await exchange(commands, **more)

    monkeypatch.setattr(store, "exchange", counted)
    return looks


async def test_many_readers_are_one_look_and_none_are_none(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    await lanes.submit(job("a"))
    looks = _counted(lanes.store, monkeypatch)
    listening = Listening(tick_s=0.01)
    async with beside(listening.run):
        readers = [opened(listening, lanes, "a") for _ in range(20)]
        while len(looks) < 3:
            await asyncio.sleep(0.005)
        assert set(looks) == {40}
        for reader in readers:
            reader.close()
        await asyncio.sleep(0.05)
        seen = len(looks)
        await asyncio.sleep(0.1)
        assert len(looks) == seen


async def test_there_is_a_most(lanes: Lanes) -> None:
    await lanes.submit(job("a"))
    listening = Listening(most=2)
    readers = [listening.open(lanes, "a") for _ in range(3)]
    assert readers[2] is None
    assert readers[0] is not None
    readers[0].close()
    assert listening.open(lanes, "a") is not None


async def test_a_slow_reader_is_not_read_ahead_for(lanes: Lanes, listening: Listening) -> None:
    granted = await running(lanes, "a")
    word = "x" * 65536
    n = 0
    for _ in range(12):
        n = await says(lanes, granted, n, *[word] * 16)
    await lanes.settle("a", granted.fence, n + 1, DONE)
    async with beside(listening.run):
        reader = opened(listening, lanes, "a")
        await reader.wait()
        await asyncio.sleep(0.1)
        assert reader.full
        assert len(text(await _events(reader))) <= PAUSE_ABOVE + ENTRIES * len(word)
        _said, end = await read(reader)
    assert end == DONE


async def test_a_job_that_is_dropped_ends_what_is_read_of_it(
    lanes: Lanes, listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buffer.listening.GONE_S", 0.1)
    granted = await running(lanes, "a")
    async with beside(listening.run):
        reader = opened(listening, lanes, "a")
        await says(lanes, granted, 0, "one")
        assert text(await _events(reader)) == "one"
        await lanes.settle("a", granted.fence, 2, DONE, drop=True)
        _, end = await read(reader)
        unknown = await read(opened(listening, lanes, "b"))
    assert end.failure is not None
    assert end.failure.code == "lost"
    assert unknown == ("", end)


async def test_a_job_that_a_store_forgot_for_a_moment_is_waited_for(lanes: Lanes, listening: Listening) -> None:
    granted = await running(lanes, "a")
    async with beside(listening.run):
        reader = opened(listening, lanes, "a")
        n = await says(lanes, granted, 0, "one")
        assert text(await _events(reader)) == "one"
        redis = lanes.store.redis
        record = await redis.hgetall(lanes.keys.job("a"))
        await redis.delete(lanes.keys.job("a"))
        await asyncio.sleep(0.1)
        await redis.hset(lanes.keys.job("a"), mapping=record)
        await redis.expire(lanes.keys.job("a"), 60)
        n = await says(lanes, granted, n, "two")
        await lanes.settle("a", granted.fence, n + 1, DONE)
        assert await read(reader) == ("two", DONE)


async def test_an_outage_is_waited_for(lanes: Lanes, listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    granted = await running(lanes, "a")
    exchange = lanes.store.exchange
    away = asyncio.Event()

    async def failing(commands: Any, **more: Any) -> Any:
        away.set()
        raise StoreUnavailable("away")

    async with beside(listening.run):
        reader = opened(listening, lanes, "a")
        n = await says(lanes, granted, 0, "one ")
        assert text(await _events(reader)) == "one "
        monkeypatch.setattr(lanes.store, "exchange", failing)
        await away.wait()
        monkeypatch.setattr(lanes.store, "exchange", exchange)
        n = await says(lanes, granted, n, "two")
        await lanes.settle("a", granted.fence, n + 1, DONE)
        assert await read(reader) == ("two", DONE)


async def test_one_that_lasts_too_long_is_not(
    lanes: Lanes, listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buffer.listening.MOST_AWAY_S", 0.05)
    await lanes.submit(job("a"))

    async def failing(commands: Any, **more: Any) -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(lanes.store, "exchange", failing)
    async with beside(listening.run):
        _, end = await read(opened(listening, lanes, "a"))
    assert end.failure is not None
    assert end.failure.code == "lost"


async def test_a_gateway_that_stops_ends_what_is_read_there(lanes: Lanes, listening: Listening) -> None:
    await lanes.submit(job("a"))
    async with beside(listening.run):
        reader = opened(listening, lanes, "a")
        listening.stop()
        _, end = await read(reader)
    assert end.failure is not None
    assert end.failure.code == "stopping"


async def test_from_behind_a_piece(lanes: Lanes, listening: Listening) -> None:
    granted = await running(lanes, "a")
    n = await says(lanes, granted, 0, "one ", "two ", "three")
    async with beside(listening.run):
        reader = opened(listening, lanes, "a", after=f"{granted.fence}-2")
        assert await reader.found()
        assert text(item.event for item in reader.had()) == "one two "
        await lanes.settle("a", granted.fence, n + 1, DONE)
        assert await read(reader) == ("three", DONE)
        lost = opened(listening, lanes, "a", after=f"{granted.fence}-9")
        assert not await lost.found()


async def test_an_entry_that_is_none_ends_what_is_read(lanes: Lanes, listening: Listening) -> None:
    granted = await running(lanes, "a")
    await lanes.store.redis.xadd(lanes.keys.reply("a"), {"k": "ev", "n": "1", "d": "not events"}, f"{granted.fence}-1")
    async with beside(listening.run):
        _, end = await read(opened(listening, lanes, "a"))
    assert end.failure is not None
    assert end.failure.code == "lost"
