"""Who waits for one job and then gets the answer elsewhere, or leaves on the way there, keeps no job going."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx
import pytest

from buffer.cache import Shelf
from buffer.job import Finish, Usage
from buffer.lanes import Lanes
from buffer.standing import Standing, read_standing
from buffer.store import StoreUnavailable
from gateway.client import WhileThere
from tests.cache.asking import CHAT, OUT, cancelled, counted, flights, passengers, post, text, until_none
from tests.coming_back.rig import DETACH, Gates, gates
from tests.gateway.rig import until


class Early:
    """Who looks for a job of another's from now on looks before that is in the store, once, and is ``held`` there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held, self.goes_on = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr("gateway.flights.read_standing", self._read)

    async def _read(self, lanes: Lanes, id: str) -> Standing | None:
        if self.held.is_set():
            return await read_standing(lanes, id)
        self.held.set()
        await self.goes_on.wait()
        return None


async def stops(g: Gates, id: str) -> None:
    await until(partial(cancelled, g, id))


@pytest.mark.parametrize("kind", ["embedded", "redis"])
@pytest.mark.parametrize("leaves", ["before", "after"])
async def test_who_looks_while_answers_are_purged_is_counted_at_one_job_alone(
    url: str | None, leaves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``leaves``: when the one that sent the first job does, as the other turns to the next."""
    async with gates(url, cache=True) as g:
        early = Early(monkeypatch)
        first = post(g.one, CHAT)
        before = await g.hands.take()
        second = post(g.two, CHAT)
        await early.held.wait()
        await g.one.client.delete("/v1/cache")
        if leaves == "before":
            first.cancel()
            await counted(g, 1)
            assert not await cancelled(g, before.id)
        early.goes_on.set()
        after = await g.hands.take()
        if leaves == "after":
            await passengers(g, 2)
            assert not await cancelled(g, before.id)
            first.cancel()
        await stops(g, before.id)
        assert not await cancelled(g, after.id)
        g.hands.say(after, "Hello", Finish("stop"), Usage(7, 1))
        await g.hands.end(after)
        assert text(CHAT, await second) == "Hello"
        await until_none(g)


async def test_who_looks_while_another_s_answer_is_kept_takes_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gates(None, cache=True) as g:
        early = Early(monkeypatch)
        first = post(g.one, CHAT)
        job = await g.hands.take()
        second = post(g.two, CHAT)
        await early.held.wait()
        alone = post(g.one, CHAT, headers=DETACH)
        await g.hands.answer("Hello")
        assert (await alone).status_code == 200
        early.goes_on.set()
        assert (await second).headers["x-doublebuffer-cache"] == "hit"
        await passengers(g, 1)
        first.cancel()
        await stops(g, job.id)


async def test_who_finds_the_store_away_while_it_looks_is_counted_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gates(None, cache=True) as g:
        first = post(g.one, CHAT)
        before = await g.hands.take()

        async def away(*_: Any) -> None:
            raise StoreUnavailable("Redis cannot be reached.")

        monkeypatch.setattr("gateway.flights.read_standing", away)
        second = post(g.two, CHAT)
        after = await g.hands.take()
        await passengers(g, 1)
        first.cancel()
        await stops(g, before.id)
        g.hands.say(after, "Hello", Finish("stop"), Usage(7, 1))
        await g.hands.end(after)
        assert (await second).headers["x-doublebuffer-cache"] == "bypass"


Work = Callable[..., Awaitable[Any]]


class Halfway:
    """What is asked of the store by ``owner.name`` from now on has been ``done`` there; word of it ``comes`` later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.done, self.comes = asyncio.Event(), asyncio.Event()
        work: Work = getattr(owner, name)

        async def halfway(*args: Any, **more: Any) -> Any:
            found = await work(*args, **more)
            self.done.set()
            await self.comes.wait()
            return found

        monkeypatch.setattr(owner, name, halfway)


class Door:
    """Sees clients leave whose requests come from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left = asyncio.Event()
        leave = WhileThere._leave

        def leaves(one: WhileThere) -> None:
            self._left.set()
            leave(one)

        monkeypatch.setattr(WhileThere, "_leave", leaves)

    async def leaves(self, client: asyncio.Task[httpx.Response]) -> None:
        """Returns when the client's gateway has heard of it, and whatever it cancels for that is cancelled."""
        client.cancel()
        await self._left.wait()
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["embedded", "redis"])
async def test_who_leaves_while_it_asks_once_more_leaves_no_trace(
    url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gates(url, cache=True) as g:
        first = post(g.one, CHAT)
        job = await g.hands.take()
        door = Door(monkeypatch)
        second = post(g.two, CHAT)
        await passengers(g, 2)
        asked = Halfway(monkeypatch, Shelf, "ask")
        await g.hands.end(job, OUT)
        assert (await first).status_code == 502
        await asked.done.wait()
        await door.leaves(second)
        asked.comes.set()
        await until_none(g)


@pytest.mark.parametrize("kind", ["embedded", "redis"])
async def test_a_job_goes_on_for_those_who_joined_it_while_whoever_sent_it_left(
    url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gates(url, cache=True) as g:
        first = post(g.one, CHAT)
        job = await g.hands.take()
        door = Door(monkeypatch)
        second = post(g.two, CHAT)
        await passengers(g, 2)
        sent = Halfway(monkeypatch, Lanes, "submit")
        await g.hands.end(job, OUT)
        assert (await first).status_code == 502
        await sent.done.wait()
        third = post(g.one, CHAT)
        await passengers(g, 2)
        (flight,) = await flights(g)
        await door.leaves(second)
        sent.comes.set()
        await passengers(g, 1)
        again = await g.hands.take()
        g.hands.say(again, "Hello", Finish("stop"), Usage(7, 1))
        await g.hands.end(again)
        assert text(CHAT, await third) == "Hello"
        assert again.id == flight["job"]


async def test_who_asked_the_store_twice_since_the_connection_broke_waits_for_no_job_of_his_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask: Work = Shelf.ask

    async def twice(*args: Any, **more: Any) -> Any:
        await ask(*args, **more)
        return await ask(*args, **more)

    monkeypatch.setattr(Shelf, "ask", twice)
    async with gates(None, cache=True) as g:
        first = post(g.one, CHAT)
        async with asyncio.timeout(3):
            await g.hands.answer("Hello")
        assert text(CHAT, await first) == "Hello"
