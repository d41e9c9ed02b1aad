"""The connections to one server of the store: one for all commands, and others for what waits or is large."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Protocol

from buffer.wire import Asked, Command, Then, Wire

TICK_S = 0.2
LARGE = 64 * 1024
"""Bytes of an argument above which commands go on a connection of their own: others would wait for them to be sent."""


class Ways(Protocol):
    """How commands reach a server. Its methods raise what redis-py does, and ``TimeoutError``."""

    async def send(self, commands: Sequence[Command], within_s: float) -> list[Any]:
        """Sends the commands in this order, on one connection; what came of each, an error of a single one in its
        place.
        """

    def tell(self, commands: Sequence[Command], within_s: float, then: Then) -> bool:
        """As ``send``, where that can be done at once: ``then`` is called with what came, in the turn in which it does,
        and with None on any failure. False: it cannot; ``then`` is not called. No argument may be ``LARGE``.
        """

    async def wait(self, commands: Sequence[Command], within_s: float) -> list[Any]:
        """The same for commands that may keep the server waiting."""

    async def stay(self, command: Command, within_s: float) -> tuple[Wire, Any]:
        """Sends a command on a connection of its own, on which nothing else is sent; that, and what came."""

    def end_in(self, within_s: float) -> None:
        """What is under way is waited for no longer than so."""

    def drop(self) -> None:
        """From here on new connections are used."""

    async def aclose(self) -> None: ...


class Wires:
    """``redis``: redis-py's client, whose pool knows how to open connections."""

    def __init__(self, redis: Any) -> None:
        self._pool = redis.connection_pool
        self._reads = dict(redis.response_callbacks)
        self._shared: Wire | None = None
        self._free: list[Wire] = []
        self._wires: set[Wire] = set()
        self._opening = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, commands: Sequence[Command], within_s: float) -> list[Any]:
        for command in commands:
            for part in command:
                if type(part) is bytes and len(part) > LARGE:
                    return await self.wait(commands, within_s)
        wire = self._shared
        if wire is None or wire.closed or wire.retired:
            wire = await self._share(within_s)
        return await self._on(wire, commands, within_s)

    def tell(self, commands: Sequence[Command], within_s: float, then: Then) -> bool:
        wire = self._shared
        if wire is None or not wire.tell(commands, _ticks(within_s), then):
            return False
        self._wind()
        return True

    async def wait(self, commands: Sequence[Command], within_s: float) -> list[Any]:
        wire = await self._own(within_s)
        try:
            return await self._on(wire, commands, within_s)
        finally:
            if wire.idle and not (wire.closed or wire.retired):
                self._free.append(wire)
            else:
                # Whoever asked has left before the answer came.
                wire.close()

    async def stay(self, command: Command, within_s: float) -> tuple[Wire, Any]:
        wire = await self._open(within_s)
        try:
            (result,) = await self._on(wire, [command], within_s)
        except BaseException:
            wire.close()
            raise
        return wire, result

    async def _on(self, wire: Wire, commands: Sequence[Command], within_s: float) -> list[Any]:
        if not commands:
            # No answer would ever come.
            return []
        batch = wire.send(commands, _ticks(within_s))
        self._wind()
        try:
            return await batch.result
        except asyncio.CancelledError:
            self._left(wire, batch)
            raise

    def _left(self, wire: Wire, batch: Asked) -> None:
        """Who asked waits no longer: for want of patience, it may be, and the connection may lead nowhere."""
        if wire is self._shared and batch.aged:
            wire.retire()

    async def _share(self, within_s: float) -> Wire:
        async with self._opening:
            wire = self._shared
            if wire is None or wire.closed or wire.retired:
                wire = self._shared = await self._open(within_s)
            return wire

    async def _own(self, within_s: float) -> Wire:
        while self._free:
            wire = self._free.pop()
            if not (wire.closed or wire.retired):
                return wire
        return await self._open(within_s)

    async def _open(self, within_s: float) -> Wire:
        connection = self._pool.make_connection()
        task = asyncio.current_task()
        asked = 0 if task is None else task.cancelling()
        try:
            async with asyncio.timeout(within_s):
                await connection.connect()
            if task is not None and task.cancelling() > asked:
                # redis-py sends by Python's ``wait_for``, which up to 3.11 may lose a cancellation.
                raise asyncio.CancelledError
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        wire = Wire(connection, self._reads)
        self._wires = {one for one in self._wires if not one.closed}
        self._wires.add(wire)
        return wire

    def _wind(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        """One clock for all commands; one for each would cost as much as the command."""
        self._timer = None
        busy = False
        for wire in self._wires:
            if not wire.idle:
                wire.tick()
                busy = busy or not wire.idle
        if busy:
            self._wind()

    def end_in(self, within_s: float) -> None:
        for wire in self._wires:
            wire.tick(most=_ticks(within_s))

    def drop(self) -> None:
        for wire in self._wires:
            wire.retire()
        self._shared = None
        self._free.clear()

    async def aclose(self) -> None:
        for wire in self._wires:
            wire.close()
        self._wires.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _ticks(within_s: float) -> int:
    """One more, since the first is cut short."""
    return math.ceil(within_s / TICK_S) + 1
