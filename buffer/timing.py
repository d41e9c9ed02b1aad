"""Waits between tries, and timers that are set at most once at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Backoff:
    """Growing waits between tries: 0.1 s, doubled up to 2 s."""

    def __init__(self) -> None:
        self._next_s = 0.1

    def reset(self) -> None:
        self._next_s = 0.1

    async def wait(self) -> None:
        wait_s, self._next_s = self._next_s, min(2.0, self._next_s * 2)
        await asyncio.sleep(wait_s)


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
