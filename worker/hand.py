"""A job in this worker's hands, from pull to settle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from buffer.records import Granted
from worker.engine import Engine

Why = Literal["cancel", "lost", "drain"]
"""``cancel``: the client has left or asked for it. ``lost``: another owns the job now, or nobody. ``drain``: this
worker stops."""


class StoppedError(Exception):
    """The job was stopped from outside; ``Hand.why`` tells why."""


class Hand:
    """One attempt: the grant, the back end, and the one way to stop it from outside."""

    __slots__ = ("_paused", "_task", "engine", "events", "first_at", "job", "prefilled", "started_at", "tokens", "why")

    def __init__(self, job: Granted, engine: Engine) -> None:
        self.job = job
        self.engine = engine
        self.why: Why | None = None
        self.events = 0
        """Events sent on to the client's gateway."""
        self.tokens: int | None = None
        """Tokens of prompt and answer, as the engine counted them."""
        self.started_at = engine.clock()
        self.first_at: float | None = None
        self.prefilled = False
        """The store knows that the first piece has come."""
        self._task: asyncio.Task[object] | None = None
        self._paused: asyncio.Event | None = None

    def stop(self, why: Why) -> None:
        """Stops what runs in ``stoppable``, now or as soon as it would begin. The first reason stands, but that a lost
        job is lost."""
        if self.why is None or why == "lost":
            first, self.why = self.why is None, why
            if first and self._task is not None:
                self._task.cancel()

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Around what may be broken off. Raises ``StoppedError``; a cancellation from elsewhere goes on as it is."""
        if self.why is not None:
            raise StoppedError
        task = self._task = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if self.why is None or task is None or task.uncancel() > 0:
                raise
            raise StoppedError from None
        finally:
            self._task = None

    def pause(self) -> None:
        """The client reads too slowly: leave the engine's stream unread for a while."""
        if self._paused is None:
            self._paused = asyncio.Event()

    def go(self) -> None:
        """The client has caught up."""
        if self._paused is not None:
            self._paused.set()
            self._paused = None

    async def unpaused(self) -> None:
        while self._paused is not None:
            await self._paused.wait()
