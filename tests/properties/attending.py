"""Who is subscribed at the store, and so is seen to live: as the server has it, and as the subscriber does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.properties.server import Server

LATE_S = 6.0
"""By then at the latest each side knows that the other is gone."""
CUT_OFF = 0.7
"""How likely a connection is lost with the way to the store; the others outlive that."""


class Attending:
    """One connection on which nothing is said. In the place of ``buffer.wire.Wire``."""

    def __init__(self, server: Server, channel: str) -> None:
        self.channel = channel
        self.closed = False
        """The subscriber knows that it is over."""
        self.there = True
        """The server has it."""
        self._end = server.subscribe(channel)

    def close(self) -> None:
        """By the subscriber; the server hears of it at once."""
        self.closed = True
        self.forget()

    def forget(self) -> None:
        """The server has it no longer."""
        if self.there:
            self.there = False
            self._end()

    def told(self) -> None:
        """The subscriber hears that it is over."""
        self.closed = True


class Attendance:
    """All of them, at one server."""

    def __init__(self, server: Server, rng: Random) -> None:
        self._server, self._rng = server, rng
        self._open: dict[Attending, None] = {}

    def subscribe(self, channel: str) -> Attending:
        self._open = {one: None for one in self._open if one.there or not one.closed}
        one = Attending(self._server, channel)
        self._open[one] = None
        return one

    def hears(self, channel: str) -> bool:
        return any(one.there and one.channel == channel for one in self._open)

    def leave(self, one: Attending) -> None:
        """Its process is gone; the server may take it to live for a while."""
        one.told()
        self._soon(one.forget)

    def cut_off(self) -> None:
        """The store is out of reach."""
        for one in self._open:
            if self._rng.random() < CUT_OFF:
                one.close()

    def restart(self) -> None:
        """The server knows of nobody; who was connected may take that to be so still."""
        for one in self._open:
            one.forget()
            self._soon(one.told)

    def _soon(self, what: Callable[[], None]) -> None:
        if self._rng.random() < 0.5:
            what()
        else:
            asyncio.get_running_loop().call_later(self._rng.uniform(0.0, LATE_S), what)

    def end(self) -> None:
        for one in self._open:
            one.close()
