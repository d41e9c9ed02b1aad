"""Readers that wait at streams of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tests.properties.server import Server


class Readers:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._last: dict[str, bytes] = {}
        """Stream that somebody waits at → its last entry."""
        self._waiting: dict[asyncio.Event, tuple[str, ...]] = {}

    async def news(self, streams: Iterable[str], until_s: float) -> None:
        """Returns when one of the streams has changed, or at ``until_s``, or when the store goes away."""
        event = asyncio.Event()
        self._waiting[event] = tuple(streams)
        try:
            async with asyncio.timeout_at(until_s):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            del self._waiting[event]

    def wake(self) -> None:
        """Something was done at the store."""
        keys = sorted({key for streams in self._waiting.values() for key in streams})
        if not keys:
            return
        lasts = self._server.ask([("XREVRANGE", key, "+", "-", "COUNT", 1) for key in keys])
        now = {key: (last[0][0] if last else b"") for key, last in zip(keys, lasts, strict=True)}
        changed = {key for key, last in now.items() if self._last.get(key, b"") != last}
        self._last.update(now)
        for event, streams in self._waiting.items():
            if changed.intersection(streams):
                event.set()

    def cut_off(self) -> None:
        for event in self._waiting:
            event.set()

    def forget(self) -> None:
        """The streams are not what they were."""
        self._last = {}
