"""A gateway of a few lines and workers by the handful, for tests of the worker."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from backends.make import make
from buffer.backend import BackendSpec
from buffer.inbox import Inbox
from buffer.job import LANES, Chat, Content, End, Event, Lane, Message, encode_chat
from buffer.lanes import Lanes
from buffer.names import queue_names
from buffer.records import NewJob
from buffer.settings import Settings
from buffer.store import Store
from policy.order import offset_s
from tests.rig.scripted import Scripted
from worker.runner import Worker

W = 60.0
_names = itertools.count(1)


@dataclass
class Ask:
    """A chat under way."""

    id: str
    follower: Any
    text: str = ""
    events: list[Event] = field(default_factory=list)

    async def end(self, within_s: float = 15.0) -> End:
        """Reads on to the end; what came before it is in ``text``."""
        async with asyncio.timeout(within_s):
            while True:
                got = await self.follower.next()
                if isinstance(got, End):
                    return got
                self._take(got)

    async def begin(self, within_s: float = 15.0) -> None:
        """Reads until some text has come."""
        async with asyncio.timeout(within_s):
            while not self.text:
                got = await self.follower.next()
                assert not isinstance(got, End), got
                self._take(got)

    def _take(self, events: list[Event]) -> None:
        self.events += events
        self.text += "".join(event.text for event in events if isinstance(event, Content))


class Gate:
    """Submits jobs and follows their replies, as a gateway does."""

    def __init__(self, store: Store, pool: str = "default", **more: Any) -> None:
        self.lanes = Lanes(store, pool)
        self.inbox = Inbox(self.lanes, f"gate{next(_names)}", **more)

    async def ask(
        self,
        text: str = "marker:hi",
        /,
        *,
        lane: Lane = "normal",
        user: str = "",
        model: str = "m-oai",
        body: bytes | None = None,
        stream: bool = True,
        **more: Any,
    ) -> Ask:
        name = f"job{next(_names)}"
        chat = Chat(model=model, messages=[Message("user", text)], think="off", stream=stream)
        job = NewJob(
            id=name,
            model=queue_names(model)[0],
            lane=lane,
            user=user or name,
            inbox="",
            body=encode_chat(chat) if body is None else body,
            offset_us=round(offset_s(lane, 0.0, W) * 1e6),
            cost=100,
            **more,
        )
        submitted, follower = await self.inbox.submit(job, whole=not stream)
        assert submitted.status == "new"
        return Ask(name, follower)


@asynccontextmanager
async def gate(store: Store, pool: str = "default", **more: Any) -> AsyncIterator[Gate]:
    """A gateway whose inbox is read. ``more``: of the inbox."""
    it = Gate(store, pool, **more)
    async with asyncio.TaskGroup() as group:
        await it.inbox.create()
        reading = group.create_task(it.inbox.run())
        yield it
        reading.cancel()


def settings(**changes: Any) -> Settings:
    return Settings(**{"lease_seconds": 4.0, "drain_seconds": 5.0, **changes})


def spec(engine: Scripted, **more: Any) -> BackendSpec:
    return BackendSpec(name=more.pop("name", f"e{engine.port}"), kind=engine.kind, url=engine.url, **more)  # type: ignore[arg-type]


def worker(store: Store, specs: Sequence[BackendSpec], config: Settings) -> Worker:
    backends = [
        make(
            one,
            connect_timeout_s=config.connect_timeout_seconds,
            first_token_timeout_s=config.first_token_timeout_seconds,
            stall_timeout_s=config.stall_timeout_seconds,
        )
        for one in specs
    ]
    return Worker(config, store, backends=backends)


class Crew:
    """Workers that run."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = workers
        self.stop = asyncio.Event()
        self.tasks = [asyncio.create_task(one.run(self.stop)) for one in workers]

    async def kill(self, number: int = 0) -> None:
        """As ``kill -9`` would: at once, and nothing is said to anybody."""
        self.tasks[number].cancel()
        await asyncio.wait([self.tasks[number]])

    async def up(self, within_s: float = 5.0) -> None:
        """Waits until all back ends of all workers have been looked at."""
        async with asyncio.timeout(within_s):
            for one in self.workers:
                for pool in one.pools:
                    for engine in pool.engines:
                        while not engine.up:
                            await asyncio.sleep(0.005)


@asynccontextmanager
async def working(
    store: Store, *specs: BackendSpec, crew: int = 1, config: Settings | None = None, stores: Sequence[Store] = ()
) -> AsyncIterator[Crew]:
    """``crew`` workers, each with all of the back ends (and a store of its own, where several are given)."""
    config = config or settings()
    homes = [*stores, *([store] * crew)][:crew]
    it = Crew([worker(home, specs, config) for home in homes])
    try:
        await it.up()
        yield it
    finally:
        it.stop.set()
        ended = await asyncio.gather(*it.tasks, return_exceptions=True)
    assert not [error for error in ended if isinstance(error, Exception)]


def markers(engine: Scripted) -> list[str]:
    """The markers of the chats that an engine was sent, in order."""
    found = [re.search(rb"marker:([\w-]+)", request.body) for request in engine.requests]
    return [match[1].decode() for match in found if match]


async def _endless(lanes: Lanes) -> set[str]:
    """Names of the pool's keys without a lifetime."""
    return {left.key.removeprefix(lanes.keys.base) for left in await lanes.leftovers() if left.ttl_s < 0}


async def quiet(lanes: Lanes) -> None:
    """Nothing is left of any job but tombstones with a lifetime."""
    fixed = {"backends", "bell", "dead", *(f"jobs:{lane}" for lane in LANES)}
    names = await _endless(lanes)
    if not names <= fixed:
        # One may have been between its making and its lifetime just then.
        names = await _endless(lanes)
    assert names <= fixed, names - fixed
    for name in names:
        if name.startswith("jobs:"):
            assert await lanes.store.redis.xlen(lanes.keys.base + name) == 0


def now() -> float:
    return time.monotonic()
