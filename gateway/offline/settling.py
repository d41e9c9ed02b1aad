"""What became of lines, on its way into the books: in groups, since each costs a write to the disk."""

from __future__ import annotations

import asyncio
import logging

from buffer.offline import LineResult, NoRoom, Offline
from buffer.store import StoreUnavailable
from buffer.timing import Backoff

_log = logging.getLogger("doublebuffer.offline")
MOST_LINES = 64
MOST_BYTES = 1024 * 1024
"""Of one group."""
MOST_HELD = 256
"""Lines that wait for it; then those that come are held up."""


class Settling:
    """Of one batch, under one fence. ``run`` has to run beside."""

    def __init__(self, offline: Offline, id: str, fence: int) -> None:
        self._offline = offline
        self._id = id
        self._fence = fence
        self._came: asyncio.Queue[LineResult] = asyncio.Queue(MOST_HELD)
        self._group: list[LineResult] = []

    async def put(self, result: LineResult) -> None:
        """Waits where too much does already."""
        await self._came.put(result)

    async def run(self) -> None:
        """Until cancelled. Raises ``Superseded``."""
        while True:
            if not self._group:
                self._group.append(await self._came.get())
            self._fill()
            await self._settle()

    async def flush(self) -> None:
        """Settles what is there, once ``run`` has ended. Raises ``Superseded``."""
        self._fill()
        while self._group:
            await self._settle()
            self._fill()

    def _fill(self) -> None:
        size = sum(len(result.data) for result in self._group)
        while len(self._group) < MOST_LINES and size < MOST_BYTES and not self._came.empty():
            self._group.append(self._came.get_nowait())
            size += len(self._group[-1].data)

    async def _settle(self) -> None:
        """Until it is done: what was answered must not be asked again for want of a place to write it to."""
        backoff = Backoff(0.5, 15.0)
        while True:
            try:
                await self._offline.settle(self._id, self._fence, self._group)
            except NoRoom as error:
                _log.warning("results of an offline batch wait: %s", error)
            except StoreUnavailable:
                pass
            else:
                self._group = []
                return
            await backoff.wait()
