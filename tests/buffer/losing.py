"""A store that loses things, and workers that live through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from buffer.follower import Follower
from buffer.inbox import Inbox
from buffer.job import Chat, End, Event, Message
from buffer.lanes import Lanes
from buffer.records import Granted, Held
from buffer.replies import ReplyWriter
from tests.buffer.jobs import LEASE_S, pull, record, words
from tests.buffer.running import beside, submitted, until

RENEW_EVERY_S = 0.05
CHAT = Chat("m", [Message("user", "hello")], stream=True)
DONE = End("done")


async def empty(lanes: Lanes) -> None:
    """As after a restart without its data."""
    keys = [left.key for left in await lanes.leftovers()]
    if keys:
        await lanes.store.redis.delete(*keys)


@dataclass
class Saved:
    """What a pool's keys held at some instant, and how long they were to live."""

    keys: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    @classmethod
    async def now(cls, lanes: Lanes) -> Saved:
        redis = lanes.store.redis
        names = [left.key for left in await lanes.leftovers()]
        return cls({name: (await redis.dump(name), max(await redis.pttl(name), 0)) for name in names})

    async def back(self, lanes: Lanes) -> None:
        """The store is as it was then, from one instant to the next."""
        since = {left.key for left in await lanes.leftovers()} - self.keys.keys()
        pipe = lanes.store.redis.pipeline(transaction=True)
        for name in since:
            pipe.delete(name)
        for name, (value, ttl_ms) in self.keys.items():
            pipe.restore(name, ttl_ms, value, replace=True)
        await pipe.execute()


class Alive:
    """A worker: ``run`` and ``writer.run`` beside the test. Renews often, and goes on with what it adopts."""

    def __init__(self, lanes: Lanes, name: str = "w") -> None:
        self.lanes = lanes
        self.name = name
        self.writer = ReplyWriter(lanes, lease_s=2.0)
        self.held: dict[str, int] = {}
        self.statuses: list[str] = []

    async def run(self) -> None:
        while True:
            await self.renew()
            await asyncio.sleep(RENEW_EVERY_S)

    async def renew(self) -> None:
        held = [Held(id, fence, "b") for id, fence in self.held.items()]
        for one, renewed in zip(held, await self.lanes.renew(self.name, held, LEASE_S), strict=True):
            self.statuses.append(renewed.status)
            if not self.writer.renewed(one.id, one.fence, renewed):
                self.held.pop(one.id, None)
            elif renewed.status == "adopt":
                self.held[one.id] = renewed.fence

    async def takes(self, count: int = 1) -> list[Granted]:
        """So many jobs, as soon as they can be had."""
        took: list[Granted] = []

        async def enough() -> bool:
            for granted in (await pull(self.lanes, count - len(took), worker=self.name)).jobs:
                self.writer.attach(granted)
                self.held[granted.id] = granted.fence
                took.append(granted)
            return len(took) == count

        await until(enough)
        return took

    def says(self, id: str, events: list[Event]) -> None:
        self.writer.write(id, events)

    def dies(self) -> None:
        """It says no more, of anything."""
        for id in list(self.held):
            self.writer.drop(id)
        self.held.clear()


@asynccontextmanager
async def reaped(lanes: Lanes) -> AsyncIterator[None]:
    """A reaper comes by often."""

    async def reap() -> None:
        while True:
            await lanes.reap(2.0, 5.0)
            await asyncio.sleep(0.1)

    async with beside(reap):
        yield


async def begun(lanes: Lanes, inbox: Inbox, alive: Alive, *, id: str = "a", **fields: Any) -> Follower:
    """A job of which its client has the first word."""
    follower = await submitted(inbox, id, chat=CHAT, **fields)
    await alive.takes()
    alive.says(id, words("one "))
    assert await follower.next() == words("one ")
    return follower


async def has(some: Sequence[Any], one: Any) -> bool:
    return one in some


async def there(lanes: Lanes, ids: Any) -> bool:
    return all([await record(lanes, id) for id in ids])
