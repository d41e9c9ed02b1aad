"""Which lines may enter the lanes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from buffer.lanes import Lanes
from buffer.records import Limits
from buffer.store import open_store
from gateway.offline.entry import Entry, Ticket
from tests.buffer.jobs import INBOX, job
from tests.buffer.losing import DONE
from tests.rig.redis_server import RedisServer

SLOTS = 2


class Models:
    """A catalog with one model at one back end."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(name="e", up=True, breaker_open=False, limit=SLOTS, slots=SLOTS)

    async def read(self) -> Models:
        return self

    def find(self, name: str) -> Any:
        offers = [SimpleNamespace(state=self.state)]
        return SimpleNamespace(queue="m", pool="default", offers=offers, stand_ins={}) if name == "m" else None


@pytest.fixture
async def lanes(redis_server: RedisServer) -> AsyncIterator[Lanes]:
    store = await open_store(redis_server.url, prefix=f"entry-{time.time_ns()}")
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    yield lanes
    await store.aclose()


class Doors:
    """Lines that want in, and those that were let in, in their order."""

    def __init__(self, entry: Entry, group: asyncio.TaskGroup) -> None:
        self.entry, self._group = entry, group
        self.inside: list[Ticket] = []
        self.tasks: list[asyncio.Task[None]] = []

    def want(self, count: int, owner: str = "o", batch: str = "b", model: str = "m") -> None:
        for _ in range(count):
            self.tasks.append(self._group.create_task(self._one(owner, batch, model)))

    async def _one(self, owner: str, batch: str, model: str) -> None:
        self.inside.append(await self.entry.enter(model, embeds=False, owner=owner, batch=batch))

    async def settled(self, count: int) -> None:
        """Waits until so many are in, and sees that no more are for two looks."""
        async with asyncio.timeout(5):
            while len(self.inside) < count:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert len(self.inside) == count


@pytest.fixture
async def doors(lanes: Lanes) -> AsyncIterator[Doors]:
    pools: Any = {"default": SimpleNamespace(lanes=lanes)}
    catalog: Any = Models()
    entry = Entry(catalog, pools, pools)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(entry.run())
        found = Doors(entry, group)
        yield found
        for task in (running, *found.tasks):
            task.cancel()


async def test_twice_as_many_as_there_are_places(doors: Doors) -> None:
    doors.want(9)
    await doors.settled(2 * SLOTS)
    doors.entry.leave(doors.inside[0])
    await doors.settled(2 * SLOTS + 1)


async def test_none_where_people_take_them_all(doors: Doors, lanes: Lanes) -> None:
    for number in range(SLOTS):
        await lanes.submit(job(f"p{number}"))
    doors.want(1)
    await doors.settled(0)
    (one,) = (await lanes.pull("w", "e", ["m"], want=1, limits=Limits(slots=SLOTS), lease_s=15.0)).jobs
    await doors.settled(0)
    await lanes.settle(one.id, one.fence, 1, DONE)
    await doors.settled(1)


async def test_owners_take_turns_then_batches(doors: Doors) -> None:
    doors.want(4, "ann", "a1")
    await doors.settled(2 * SLOTS)
    doors.want(3, "ann", "a2")
    doors.want(2, "bob", "b1")
    for number, expected in enumerate(("b1", "b1", "a2"), 1):
        doors.entry.leave(doors.inside[number - 1])
        await doors.settled(2 * SLOTS + number)
        assert doors.inside[-1].batch == expected


async def test_runners_share_the_places(doors: Doors) -> None:
    doors.entry.runners = 2
    doors.want(9)
    await doors.settled(SLOTS)


async def test_for_an_unknown_model_a_few_may_hear_that_it_is(doors: Doors) -> None:
    doors.want(9, model="other")
    await doors.settled(2)
