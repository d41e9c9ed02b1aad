"""Background work gives its place to people; one person's many requests do not hold up another's first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from buffer.control import Control
from buffer.store import Store, open_store
from tests.rig.connection import Recorded
from tests.rig.redis_server import RedisServer
from tests.rig.script import Piece, Wait, answer, role
from tests.rig.scripted import Scripted
from tests.worker.rig import Gate, gate, markers, quiet, spec, working
from tests.worker.test_order import beside
from worker.pool import Pool


@pytest.mark.parametrize("crew", [1, 3])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_task_that_has_said_nothing_gives_its_place_to_a_person(
    store: Store, door: Gate, real_redis: RedisServer, crew: int, stream: bool
) -> None:
    """The title of a chat that is slow to come, say; before an engine with one place."""
    free = asyncio.Event()

    def script(request: Recorded) -> Iterator[Piece]:
        if b"marker:title" in request.body and len(engine.requests) == 1:
            if not stream:
                yield from (role(), "half a ti")
            yield Wait(free)
        yield from answer("openai", "said")

    async with AsyncExitStack() as stack:
        stores = await beside(store, real_redis, crew, stack)
        engine = await stack.enter_async_context(Scripted("openai", script=script))
        await stack.enter_async_context(working(store, spec(engine, max_in_flight=1), crew=crew, stores=stores))
        title = await door.ask("marker:title", lane="background", stream=stream)
        await engine.received(1)
        if not stream:
            await asyncio.sleep(0.05)  # its first words are on their way
        chat = await door.ask("marker:chat")
        assert (await chat.end()).kind == "done"
        assert (await title.end()).kind == "done"
        assert (title.text, chat.text) == ("said", "said")
        assert markers(engine) == ["title", "chat", "title"]
    await quiet(door.lanes)


@pytest.mark.parametrize("crew", [1, 2])
async def test_it_gives_its_place_to_the_next_one_just_as_soon(
    store: Store, door: Gate, real_redis: RedisServer, crew: int
) -> None:
    """It has begun anew less than a second after it was asked to give way."""
    free = asyncio.Event()

    def script(request: Recorded) -> Iterator[Piece]:
        if b"marker:title" in request.body:
            yield Wait(free)
        yield from answer("openai", "said")

    async with AsyncExitStack() as stack:
        stores = await beside(store, real_redis, crew, stack)
        engine = await stack.enter_async_context(Scripted("openai", script=script))
        await stack.enter_async_context(working(store, spec(engine, max_in_flight=1), crew=crew, stores=stores))
        title = await door.ask("marker:title", lane="background")
        for number in range(1, 4):
            await engine.received(2 * number - 1)
            async with asyncio.timeout(0.9):
                assert (await (await door.ask(f"marker:chat{number}")).end()).kind == "done"
        free.set()
        assert (await title.end()).kind == "done"
        assert markers(engine) == ["title", "chat1", "title", "chat2", "title", "chat3", "title"]
    await quiet(door.lanes)


async def test_where_the_word_for_it_is_lost_the_next_renewal_has_it(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear, lost = Pool.told, []

    def told(pool: Pool, control: Control) -> None:
        if control.kind == "yield":
            lost.append(control.id)
        else:
            hear(pool, control)

    monkeypatch.setattr(Pool, "told", told)
    free = asyncio.Event()

    def script(request: Recorded) -> Iterator[Piece]:
        if b"marker:title" in request.body and len(engine.requests) == 1:
            yield Wait(free)
        yield from answer("openai", "said")

    async with Scripted("openai", script=script) as engine, working(store, spec(engine, max_in_flight=1)):
        title = await door.ask("marker:title", lane="background")
        await engine.received(1)
        chat = await door.ask("marker:chat")
        async with asyncio.timeout(5):
            assert (await chat.end()).kind == "done"
        assert (await title.end()).kind == "done"
        assert lost
        assert markers(engine) == ["title", "chat", "title"]
    await quiet(door.lanes)


async def test_one_whose_client_has_read_of_it_keeps_its_place(store: Store, door: Gate) -> None:
    free = asyncio.Event()

    def script(request: Recorded) -> Iterator[Piece]:
        if b"marker:task" in request.body:
            yield from (role(), "so far")
            yield Wait(free)
        yield from answer("openai", "said")

    async with Scripted("openai", script=script) as engine, working(store, spec(engine, max_in_flight=1)):
        task = await door.ask("marker:task", lane="background")
        await task.begin()
        chat = await door.ask("marker:chat")
        await asyncio.sleep(0.2)
        assert markers(engine) == ["task"]
        free.set()
        assert [(await one.end()).kind for one in (task, chat)] == ["done", "done"]


async def test_people_do_not_make_room_for_people(store: Store, door: Gate) -> None:
    free = asyncio.Event()
    script = lambda _: iter([Wait(free), *answer("openai", "said")])  # noqa: E731
    async with Scripted("openai", script=script) as engine, working(store, spec(engine, max_in_flight=1)):
        first = await door.ask("marker:first", lane="slow")
        await engine.received(1)
        second = await door.ask("marker:second", lane="thinking")
        await asyncio.sleep(0.2)
        assert markers(engine) == ["first"]
        free.set()
        assert [(await one.end()).kind for one in (first, second)] == ["done", "done"]


async def test_ten_people_are_served_among_the_first_twenty_beside_one_with_two_hundred(
    real_redis: RedisServer,
) -> None:
    """Before an engine with one place, over two workers."""
    free = asyncio.Event()

    def script(request: Recorded) -> Iterator[Piece]:
        if b"marker:first" in request.body:
            yield Wait(free)
        yield from answer("openai", "said")

    async with AsyncExitStack() as stack:
        store, *stores = [await open_store(real_redis.url, prefix="users") for _ in range(3)]
        for one in (store, *stores):
            stack.push_async_callback(one.aclose)
        engine = await stack.enter_async_context(Scripted("openai", script=script))
        door = await stack.enter_async_context(gate(store))
        await stack.enter_async_context(working(store, spec(engine, max_in_flight=1), crew=2, stores=stores))
        asks = [await door.ask("marker:first", user="many")]
        await engine.received(1)
        asks += [await door.ask(f"marker:many{k}", user="many") for k in range(200)]
        asks += [await door.ask(f"marker:one{k}", user=f"u{k}") for k in range(10)]
        free.set()
        await engine.received(21)
        for ask in reversed(asks):
            await door.lanes.cancel(ask.id)
        await asyncio.gather(*(ask.end() for ask in asks))
    assert {f"one{k}" for k in range(10)} <= set(markers(engine)[1:21])
