"""The store as one process of the installation reaches it: late, lost on the way there or back, or not at all.

What stands here is in the place of the connections, so all that the product does above it is the product's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import NoPermissionError

from buffer.access import Command, Store
from buffer.link import Link
from buffer.wire import Wire
from tests.properties.attending import Attending

if TYPE_CHECKING:
    from tests.properties.world import World

HANGS_S = 20.0
"""Longer than anybody waits for an answer."""


class Far:
    """One process' way to the store. Whoever owns it may be paused, and may die."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.paused_until_s = 0.0
        self.dead = False
        self._attending: list[Attending] = []
        self._limits: dict[asyncio.Timeout, None] = {}
        """In the order in which they began: that of a set is another in each process."""

    def store(self) -> Store:
        return Store(Link(FarRedis(), self, "redis://far"), prefix=self.world.server.prefix)

    async def awake(self) -> None:
        """Returns once the process runs: never, if it is dead."""
        loop = asyncio.get_running_loop()
        if self.dead:
            await loop.create_future()
        while loop.time() < self.paused_until_s:
            await asyncio.sleep(self.paused_until_s - loop.time())

    def pause(self, seconds: float) -> None:
        """Nothing gets in or out for so long."""
        self.paused_until_s = max(self.paused_until_s, asyncio.get_running_loop().time() + seconds)

    @property
    def pauses_s(self) -> float:
        """For how long from now on."""
        return self.paused_until_s - asyncio.get_running_loop().time()

    async def send(self, commands: Sequence[Command], within_s: float) -> list[Any]:
        """See ``buffer.wires.Ways``."""
        async with asyncio.timeout(within_s) as limit:
            self._limits[limit] = None
            try:
                return await self._send(commands)
            finally:
                del self._limits[limit]

    wait = send

    async def stay(self, command: Command, within_s: float) -> tuple[Wire, Any]:
        """See ``buffer.wires.Ways``. Raises redis-py's ``ConnectionError``."""
        world = self.world
        await world.later(0.0005, 0.01)
        await self.awake()
        chance = world.chance()
        if chance < 0.05 or world.unreachable:
            await self._lose("on the way there")
        one = world.attendance.subscribe(str(command[1]))
        if chance < 0.06:
            return cast(Wire, one), NoPermissionError("this user has no permissions to access the channel")
        self._attending.append(one)
        await world.later(0.0005, 0.01)
        await self.awake()
        return cast(Wire, one), [b"subscribe", command[1].encode(), 1]

    def hang_up(self) -> None:
        """Its process is gone."""
        for one in self._attending:
            self.world.attendance.leave(one)

    def end_in(self, within_s: float) -> None:
        until_s = asyncio.get_running_loop().time() + within_s
        for limit in self._limits:
            if not limit.expired() and (limit.when() or until_s) > until_s:
                limit.reschedule(until_s)

    def drop(self) -> None:
        """There is no connection."""

    async def aclose(self) -> None:
        """There is none to close."""

    async def _send(self, commands: Sequence[Command]) -> list[Any]:
        """Raises redis-py's ``ConnectionError``."""
        world = self.world
        await world.later(0.0005, 0.01)
        await self.awake()
        chance = world.chance()
        if chance < 0.004 or world.unreachable:
            world.ledger.counts["lost command"] += 1
            await self._lose("on the way there")
        if commands[-1][0] == "XREAD":
            return await self._read(commands)
        results = world.execute(commands)
        if chance < 0.016:
            world.ledger.counts["lost ack"] += 1
            await self._lose("on the way back")
        await world.later(0.0005, 0.01)
        await self.awake()
        return results

    async def _lose(self, where: str) -> None:
        hangs = self.world.rng.random() < 0.1
        self.world.ledger.counts["hung"] += hangs
        await self.world.later(*((HANGS_S, HANGS_S) if hangs else (0.01, 2.0)))
        await self.awake()
        raise ConnectionLost(f"Lost {where}.")

    async def _read(self, commands: Sequence[Command]) -> list[Any]:
        """The last of the commands is an XREAD that may block."""
        world, loop = self.world, asyncio.get_running_loop()
        *before, read = commands
        block = read.index("BLOCK") if "BLOCK" in read else None
        until_s = loop.time() + (read[block + 1] / 1000 if block is not None else 0.0)
        if block is not None:
            read = (*read[:block], *read[block + 2 :])
        first = read.index("STREAMS") + 1
        streams = [str(key) for key in read[first : first + (len(read) - first) // 2]]
        results = world.execute([*before, read])
        while not results[-1] and loop.time() < until_s:
            await world.readers.news(streams, until_s)
            if world.unreachable:
                await self._lose("while it waited")
            await self.awake()
            results = [*results[:-1], *world.execute([read])]
        await world.later(0.0005, 0.005)
        await self.awake()
        return results


class FarRedis:
    """In the place of ``redis.asyncio.Redis``: only to be closed."""

    async def aclose(self) -> None:
        """There is no connection."""
