"""What the tasks of one pool share: its lanes, its back ends, the jobs in hand, and whether the store is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from buffer.lanes import Lanes
from buffer.replies import ReplyWriter
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.telemetry import Telemetry
from worker.backoff import Backoff, wait_for
from worker.engine import Engine
from worker.hand import Hand

log = logging.getLogger("doublebuffer.worker")


@dataclass(slots=True)
class Pool:
    worker: str
    """This worker's id."""
    settings: Settings
    lanes: Lanes
    replies: ReplyWriter
    telemetry: Telemetry
    engines: list[Engine]
    hands: dict[str, Hand]
    """Jobs owned now, by id."""
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    """The store answered the last renewal. Nothing is pulled while it is unset: after an outage the leases come
    first."""
    renew_now: asyncio.Event = field(default_factory=asyncio.Event)
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    """A drain has room and found too little: the doorbell is to listen."""
    stopping: bool = False

    def away(self) -> None:
        """The store did not answer."""
        if self.connected.is_set():
            self.connected.clear()
            log.warning("the store does not answer; waiting for it")
        self.renew_now.set()

    def wake(self) -> None:
        """Something came in: every back end's drain looks."""
        for engine in self.engines:
            engine.wake.set()

    async def keep_on(
        self, step: Callable[[], Awaitable[None]], *, every_s: float, hurry: asyncio.Event | None = None
    ) -> None:
        """Runs ``step`` again and again, ``every_s`` seconds apart or when hurried; while the store is away, with
        growing pauses."""
        backoff = Backoff(most_s=max(0.1, min(2.0, every_s)))
        while True:
            if hurry is not None:
                hurry.clear()
            try:
                await step()
            except StoreUnavailable:
                self.away()
                await backoff.pause()
                continue
            backoff.worked()
            if hurry is None:
                await asyncio.sleep(every_s)
            else:
                await wait_for(hurry, every_s)
