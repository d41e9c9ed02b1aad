"""Virtual time for a whole installation in one process: the clock moves only when nobody has anything to do, and then
at once to whatever comes next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from unittest.mock import patch

T = TypeVar("T")
START_S = 1_790_000_000.0


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time`` is the instant, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = START_S
        # What a float of this size can still tell apart.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready and scheduled:
            self._now_s = max(self._now_s, min(timer.when() for timer in scheduled[:1]))
        super()._run_once()  # type: ignore[misc]


def run(main: Callable[[], Awaitable[T]]) -> T:
    """``asyncio.run`` in virtual time. All of the product's own clocks tell it too. The calendar's as well: what falls
    into one slot of it would depend on how fast this machine is.
    """
    loop = VirtualLoop()
    with (
        patch.object(time, "time", loop.time),
        patch.object(time, "monotonic", loop.time),
        patch.object(time, "perf_counter", loop.time),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):

        async def whole() -> T:
            return await main()

        return runner.run(whole())


def now_us() -> int:
    """The instant, µs."""
    return round(asyncio.get_running_loop().time() * 1_000_000)
