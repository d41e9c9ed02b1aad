"""A store that comes back empty, older or late, with workers at work: no word lost, none twice, no engine asked
twice."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from buffer.control import Control
from buffer.job import End
from buffer.records import Pulled
from buffer.store import Store, StoreUnavailable, open_store
from tests.rig.connection import Recorded
from tests.rig.redis_server import RedisServer, run_redis
from tests.rig.script import HOLD, Piece, Sleep, Wait, answer, role
from tests.rig.scripted import Scripted
from tests.worker.rig import Ask, Crew, Gate, gate, now, quiet, settings, spec, working
from worker import leases, runner
from worker.pool import Pool

DONE = End("done")
WORDS = 120
TEXT = "".join(f"{count} " for count in range(WORDS))
WATCH_S = 0.2


def talk(_: Recorded) -> list[Piece]:
    """Numbered words for a second and a half."""
    words: list[Piece] = []
    for count in range(WORDS):
        words += [f"{count} ", Sleep(1.5 / WORDS)]
    return [role(), *words, *answer("openai", "")[2:]]


@asynccontextmanager
async def house(store: Store, engine: Scripted, **more: Any) -> AsyncIterator[tuple[Gate, Crew]]:
    """A gateway that looks after its jobs often, and a worker."""
    watch_s = more.pop("watch_s", WATCH_S)
    config = settings(**{"lease_seconds": 3.0, **more})
    async with (
        gate(store, watch_s=watch_s, lease_s=config.lease_seconds) as door,
        working(store, spec(engine), config=config) as crew,
    ):
        yield door, crew


@asynccontextmanager
async def own_redis(*options: str) -> AsyncIterator[tuple[RedisServer, Store]]:
    """A server that may be killed, and a store there."""
    with run_redis(*options) as server:
        store = await open_store(server.url, prefix=f"t{secrets.token_hex(4)}")
        yield server, store
        await store.aclose()


async def until(condition: Callable[[], object], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.005)


def chats(crew: Crew) -> Pool:
    return crew.workers[0].pools[0]


def orphans(crew: Crew) -> int:
    return sum(hand.orphan_at is not None for hand in chats(crew).hands.values())


async def told_whole(ask: Ask) -> None:
    assert await ask.end() == DONE
    assert ask.text == TEXT


async def test_emptied_in_the_middle_of_answers(store: Store) -> None:
    async with Scripted("openai", script=talk) as engine, house(store, engine) as (door, _):
        asks = [await door.ask(lane="fast") for _ in range(8)]
        await asyncio.gather(*(ask.begin() for ask in asks))
        await store.redis.flushall()
        await asyncio.gather(*(told_whole(ask) for ask in asks))
        assert len(engine.requests) == 8
        await quiet(door.lanes)


async def test_emptied_again_and_again(store: Store) -> None:
    events = [asyncio.Event() for _ in range(3)]
    pieces: list[Piece] = [piece for event in events for piece in ("word ", Wait(event))]
    async with (
        Scripted("openai", script=lambda _: [role(), *pieces, *answer("openai", "end")[1:]]) as engine,
        house(store, engine) as (door, crew),
    ):
        ask = await door.ask()
        for count, event in enumerate(events):
            ask.text, before = "", ask.text
            await ask.begin()
            ask.text = before + ask.text
            assert ask.text == "word " * (count + 1)
            hand = chats(crew).hands[ask.id]
            fence = hand.job.fence
            await store.redis.flushall()
            await until(lambda hand=hand, fence=fence: hand.job.fence > fence)  # type: ignore[misc]
            event.set()
        assert await ask.end() == DONE
        assert ask.text == "word word word end"
        assert len(engine.requests) == 1
        await quiet(door.lanes)


async def test_an_answer_that_ends_while_the_store_is_empty(store: Store) -> None:
    go = asyncio.Event()
    pieces: list[Piece] = [role(), "one", Wait(go), " two", *answer("openai", " three")[1:]]
    async with (
        Scripted("openai", script=lambda _: pieces) as engine,
        house(store, engine, watch_s=1.0) as (door, crew),
    ):
        ask = await door.ask()
        await ask.begin()
        await store.redis.flushall()
        go.set()
        await until(lambda: orphans(crew) and chats(crew).hands[ask.id].closing)
        assert await ask.end() == DONE
        assert ask.text == "one two three"
        assert len(engine.requests) == 1
        await quiet(door.lanes)


async def test_a_whole_answer_goes_on_as_well(store: Store) -> None:
    async with Scripted("openai", script=talk) as engine, house(store, engine) as (door, crew):
        ask = await door.ask(stream=False)
        await until(lambda: chats(crew).replies.written(ask.id) > 3)
        await store.redis.flushall()
        await told_whole(ask)
        assert len(engine.requests) == 1


@pytest.mark.parametrize("options", [(), ("--appendonly", "yes", "--appendfsync", "always")], ids=["empty", "log"])
async def test_killed_in_the_middle_of_answers(options: tuple[str, ...]) -> None:
    async with (
        own_redis(*options) as (server, store),
        Scripted("openai", script=talk) as engine,
        house(store, engine) as (door, _),
    ):
        asks = [await door.ask(lane="fast") for _ in range(4)]
        await asyncio.gather(*(ask.begin() for ask in asks))
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(server.start)
        await asyncio.gather(*(told_whole(ask) for ask in asks))
        assert len(engine.requests) == 4
        await quiet(door.lanes)


@pytest.mark.parametrize("when", ["before it came", "while it waited", "in the middle"])
async def test_back_in_an_earlier_state(when: str) -> None:
    """As after a fail-over to a replica that lagged."""
    async with (
        own_redis() as (server, store),
        Scripted("openai", script=talk) as engine,
        house(store, engine) as (door, crew),
    ):
        pool = chats(crew)
        if when == "before it came":
            await store.redis.save()
        elif when == "while it waited":
            pool.connected.clear()
        ask = await door.ask()
        if when == "while it waited":
            await store.redis.save()
            pool.renew_now.set()
        await ask.begin()
        if when == "in the middle":
            await store.redis.save()
        written = pool.replies.written(ask.id)
        await until(lambda: pool.replies.written(ask.id) > written + 20)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await told_whole(ask)
        assert len(engine.requests) == 1
        await quiet(door.lanes)


async def test_frozen_in_the_middle_of_answers() -> None:
    async with (
        own_redis() as (server, store),
        Scripted("openai", script=talk) as engine,
        house(store, engine, lease_seconds=4.0) as (door, _),
    ):
        asks = [await door.ask(lane="fast") for _ in range(4)]
        await asyncio.gather(*(ask.begin() for ask in asks))
        server.freeze()
        await asyncio.sleep(3)
        server.thaw()
        await asyncio.gather(*(told_whole(ask) for ask in asks))
        assert len(engine.requests) == 4
        await quiet(door.lanes)


async def test_emptied_between_the_grant_of_a_job_and_its_start(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Scripted("openai") as engine, house(store, engine) as (door, crew):
        pool = chats(crew)
        body = pool.lanes.body

        async def late(ids: list[str]) -> list[bytes | None]:
            monkeypatch.setattr(pool.lanes, "body", body)
            await store.redis.flushall()
            return await body(ids)

        monkeypatch.setattr(pool.lanes, "body", late)
        ask = await door.ask("marker:late words:2 " + "x" * 70_000)  # a short body comes with the job
        assert await ask.end() == DONE
        assert ask.text == "late 1 2"
        assert len(engine.requests) == 1
        await quiet(door.lanes)


async def test_a_gateway_that_does_not_come_back_has_its_engine_closed_after_a_lease(store: Store) -> None:
    async with (
        Scripted("openai", script=lambda _: [role(), "half", HOLD]) as engine,
        house(store, engine, watch_s=60, lease_seconds=1.0) as (door, crew),
    ):
        ask = await door.ask()
        request = await engine.received(1)
        await ask.begin()
        chats(crew).renew_now.set()
        began = now()
        await store.redis.flushall()
        async with asyncio.timeout(3):
            await request.closed.wait()
        assert now() - began > 0.9
        await until(lambda: not chats(crew).hands)


async def test_after_an_outage_nothing_is_pulled_while_jobs_in_hand_are_not_known(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not for long."""
    monkeypatch.setattr(leases, "MOST_HELD_UP_S", 0.6)
    async with (
        Scripted("openai") as engine,
        house(store, engine, watch_s=60, lease_seconds=30) as (door, crew),
        gate(store) as other,
    ):
        engine.once = [[role(), "half", HOLD]]
        ask = await door.ask()
        await ask.begin()
        pool = chats(crew)
        began = now()
        await store.redis.flushall()
        pool.away()
        await until(lambda: orphans(crew))
        assert not pool.connected.is_set()
        assert await (await other.ask("marker:new words:1")).end() == DONE
        assert 0.6 <= now() - began < 3
        assert orphans(crew)
        pool.hands[ask.id].stop("lost")


async def test_a_job_that_is_cancelled_while_nobody_knows_it_is_over_at_once(store: Store) -> None:
    async with (
        Scripted("openai", script=lambda _: [role(), "half", HOLD]) as engine,
        house(store, engine, watch_s=60, lease_seconds=30) as (door, crew),
    ):
        ask = await door.ask()
        request = await engine.received(1)
        await ask.begin()
        pool = chats(crew)
        await store.redis.flushall()
        pool.renew_now.set()
        await until(lambda: orphans(crew))
        pool.told(Control("cancel", ask.id, pool.hands[ask.id].job.fence))
        async with asyncio.timeout(1):
            await request.closed.wait()
        await until(lambda: not pool.hands, 1)


async def test_cancelled_after_it_was_put_there_again_and_before_it_is_adopted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Scripted("openai", script=lambda _: [role(), "half", HOLD]) as engine,
        house(store, engine, watch_s=0.2, lease_seconds=30) as (door, crew),
    ):
        ask = await door.ask()
        request = await engine.received(1)
        await ask.begin()
        pool = chats(crew)
        fence = pool.hands[ask.id].job.fence
        await store.redis.flushall()
        async with asyncio.timeout(5):
            while (await door.lanes.place(ask.id)).fence <= fence:
                await asyncio.sleep(0.005)
        assert await door.lanes.cancel(ask.id) == "running"
        pool.renew_now.set()
        async with asyncio.timeout(1):
            await request.closed.wait()
        assert (await ask.end(2)).kind == "cancelled"
        await quiet(door.lanes)


async def test_a_worker_that_stops_does_not_wait_for_ever(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SETTLE_S", 0.3)
    async with (
        Scripted("openai", script=lambda _: [role(), "half", HOLD]) as engine,
        house(store, engine, watch_s=60, lease_seconds=30, drain_seconds=0.2) as (door, crew),
    ):
        ask = await door.ask()
        await ask.begin()
        await store.redis.flushall()
        chats(crew).renew_now.set()
        await until(lambda: orphans(crew))
        crew.stop.set()
        async with asyncio.timeout(3):
            await asyncio.gather(*crew.tasks)


async def test_what_a_lost_pull_granted_does_not_wait_for_its_lease(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Scripted("openai") as engine,
        house(store, engine, watch_s=60, lease_seconds=60) as (door, crew),
    ):
        pool = chats(crew)
        pull = pool.lanes.pull
        granted: list[str] = []

        async def unheard(*args: Any, **more: Any) -> Pulled:
            pulled = await pull(*args, **more)
            if not pulled.jobs:
                return pulled
            granted.extend(job.id for job in pulled.jobs)
            monkeypatch.setattr(pool.lanes, "pull", pull)
            raise StoreUnavailable("The answer came too late.")

        monkeypatch.setattr(pool.lanes, "pull", unheard)
        began = now()
        ask = await door.ask("marker:late words:2")
        assert await ask.end(5) == DONE
        assert ask.text == "late 1 2"
        assert granted == [ask.id]
        assert now() - began < 3
        assert len(engine.requests) == 1
        await quiet(door.lanes)
