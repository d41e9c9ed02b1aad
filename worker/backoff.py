"""Waiting longer each time that something doesn't work."""

from __future__ import annotations

import asyncio
import random


class Backoff:
    """Pauses from ``first_s`` up to ``most_s``, doubled each time and spread, so that several workers don't come back
    together."""

    def __init__(self, first_s: float = 0.05, most_s: float = 2.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._tries = 0

    def worked(self) -> None:
        """Starts anew."""
        self._tries = 0

    async def pause(self) -> None:
        pause_s = min(self._most_s, self._first_s * 2.0 ** min(self._tries, 16))
        self._tries += 1
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))


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
