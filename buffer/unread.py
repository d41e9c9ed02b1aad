"""What has come of an answer and was not given out yet, and its end. Pure but for the waiting."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from buffer.frames import weights
from buffer.job import End, Event
from buffer.timing import Deadline

PAUSE_ABOVE = 1024 * 1024
"""Unread bytes above which the job's worker is asked to stop reading its engine."""
MOST_UNREAD = 32 * 1024 * 1024
"""Unread bytes at which a client is too slow to be served."""


class Unread:
    """``whole``: nothing is given out before the end."""

    __slots__ = ("_deadline", "_waiter", "bytes", "end", "end_given", "events", "straight", "whole")

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
        self.events: list[Event] = []
        self.bytes = 0
        """Rough size of ``events``."""
        self.end: End | None = None
        self.end_given = False
        self.straight: Callable[[list[Event]], bool] | None = None
        """Called in place of whoever waits, with what it waits for; False: it has to see to that itself."""
        self._waiter: asyncio.Future[None] | None = None
        self._deadline: Deadline | None = None

    @property
    def ready(self) -> bool:
        """There is something to give out."""
        return self.end is not None or (bool(self.events) and not self.whole)

    async def wait(self, until_at: float = math.inf) -> None:
        """Returns as soon as there is something to give out. May be cancelled; one caller at a time. ``TimeoutError``
        at ``until_at``, seconds of the loop's clock.
        """
        while self.end is None and (self.whole or not self.events):
            self._waiter = asyncio.get_running_loop().create_future()
            if self._deadline is not None:
                # Also to no end: whoever waited before, and has left, may have set one.
                self._deadline.set(until_at)
            elif until_at != math.inf:
                self._deadline = Deadline(self._late)
                self._deadline.set(until_at)
            try:
                await self._waiter
            finally:
                self._waiter = None

    def put(self, events: list[Event]) -> bool:
        """False: they went straight to where whoever waits for them would have brought them."""
        waiter = self._waiter
        waits = waiter is not None and not waiter.done()
        if waits and self.straight is not None and not self.events:
            try:
                if self.straight(events):
                    return False
            except Exception as error:  # noqa: BLE001 - it is for whoever waits, not for the one that brings the events
                assert waiter is not None
                waiter.set_exception(error)
                return False
        self.events += events
        self.bytes += weights(events)
        if waits:
            self._rouse()
        return True

    def put_end(self, end: End) -> None:
        self.end = end
        self._rouse()

    def take(self) -> list[Event] | End:
        """All events, or else the end, once. Raises ``RuntimeError`` after it."""
        if self.events:
            events = self.events
            self.clear()
            return events
        if self.end_given or self.end is None:
            raise RuntimeError("This answer has ended.")
        self.end_given = True
        return self.end

    def clear(self) -> None:
        self.events, self.bytes = [], 0

    def leave(self) -> None:
        """Nobody will wait any more."""
        self.clear()
        self.straight = None
        if self._deadline is not None:
            self._deadline.clear()
            self._deadline = None

    def _late(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())

    def _rouse(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
