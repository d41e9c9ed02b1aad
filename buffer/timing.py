"""Waits between tries, and timers that are set at most once at a time."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Backoff:
    """Growing waits between tries: from ``first_s`` up to ``most_s``, doubled each time, and spread so that several
    processes don't come back together.
    """

    def __init__(self, first_s: float = 0.1, most_s: float = 2.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._tries = 0

    def reset(self) -> None:
        """It worked."""
        self._tries = 0

    async def wait(self) -> None:
        wait_s = min(self._most_s, self._first_s * 2.0 ** min(self._tries, 16))
        self._tries += 1
        await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))


async def wait_for(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Waits for the event, ``timeout_s`` seconds at most (None: for ever); returns whether it came."""
    if timeout_s is None:
        await event.wait()
        return True
    try:
        async with asyncio.timeout(max(0.0, timeout_s)):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True


class Deadline:
    """The end of one wait after another, on one timer: a timer for each wait would cost more than the wait itself.

    Where it is put off, the timer finds that out when it goes off. ``late``: called when the time has come.
    """

    __slots__ = ("_late", "_timer", "_until_at")

    def __init__(self, late: Callable[[], None]) -> None:
        self._late = late
        self._timer: asyncio.TimerHandle | None = None
        self._until_at = math.inf

    def set(self, until_at: float) -> None:
        """Seconds of the loop's clock; infinite: no end."""
        self._until_at = until_at
        if until_at != math.inf and (self._timer is None or self._timer.when() > until_at):
            self.clear()
            self._timer = asyncio.get_running_loop().call_at(until_at, self._go_off)

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        # uvloop's clock tells milliseconds.
        if asyncio.get_running_loop().time() + 0.001 < self._until_at:
            self.set(self._until_at)
        else:
            self._late()


class Patience:
    """What is waited for no longer than ``most_s``, however much it is at a time, on one timer."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._waits: dict[asyncio.Future[Any], float] = {}
        """In the order in which they come to their ends."""
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, result: asyncio.Future[T]) -> T:
        """The result. Raises ``TimeoutError``."""
        loop = result.get_loop()
        self._waits[result] = loop.time() + self._most_s
        if self._timer is None:
            self._timer = loop.call_later(self._most_s, self._go_off, loop)
        try:
            return await result
        finally:
            del self._waits[result]

    def _go_off(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        for result, until_at in self._waits.items():
            # uvloop's clock tells milliseconds.
            if until_at > loop.time() + 0.001:
                self._timer = loop.call_at(until_at, self._go_off, loop)
                return
            if not result.done():
                result.set_exception(TimeoutError())


class Alarm:
    """Calls ``action`` once, ``after_s`` after it was set; set while it is set, it stays as it is."""

    def __init__(self, after_s: float, action: Callable[[], None]) -> None:
        self._after_s = after_s
        self._action = action
        self._timer: asyncio.TimerHandle | None = None

    def set(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._after_s, self._go_off)

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self._action()
