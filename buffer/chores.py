"""What is to be done at the store because of what was read: one task does it, one thing after another, and tries again
while the store is away.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from buffer.access import StoreUnavailable
from buffer.timing import Backoff

log = logging.getLogger("doublebuffer.buffer")

Chore = Callable[[], Awaitable[None]]
MOST = 20_000


class Chores:
    """Chores by key: one that is asked for twice is done once. At most ``MOST``; beyond it new ones are dropped."""

    def __init__(self) -> None:
        self._todo: OrderedDict[tuple[str, str], Chore] = OrderedDict()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: tuple[str, str], chore: Chore) -> None:
        if key in self._todo or len(self._todo) < MOST:
            self._todo[key] = chore
            self._idle.clear()
            self._wake.set()
        else:
            log.warning("Too much to do at the store: a %s was dropped", key[0])

    async def done(self) -> None:
        """Returns when nothing is left to do."""
        await self._idle.wait()

    async def run(self) -> None:
        backoff = Backoff()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._todo:
                key, chore = self._todo.popitem(last=False)
                try:
                    await chore()
                    backoff.reset()
                except StoreUnavailable:
                    self._todo.setdefault(key, chore)
                    await backoff.wait()
            self._idle.set()
