"""The store inside this process: fakeredis, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis import exceptions as errors

from buffer.access import MAX_BLOCK_S, Command, Store
from buffer.entries import Entry, entries_of, trims_of
from buffer.link import COMMAND_TIMEOUT_S, Link
from buffer.scripting import by_sha
from buffer.wire import Then, Wire


class EmbeddedStore(Store):
    """fakeredis inside this process. Nothing blocks in it: a reader looks, and sleeps until somebody rings."""

    embedded = True

    def __init__(self, redis: Any, *, prefix: str) -> None:
        self._memory = Memory(redis)
        super().__init__(Link(redis, self._memory, "memory"), prefix=prefix)
        self._sleepers: set[tuple[frozenset[str], asyncio.Event]] = set()

    async def pipeline(
        self,
        commands: Sequence[Command],
        *,
        again: bool = True,
        patient: bool = True,
        within_s: float = COMMAND_TIMEOUT_S,
    ) -> list[Any]:
        return await self._memory.send(commands, within_s)

    def pressing(self, base: str, command: Command) -> Command:
        return command

    def ring(self, *names: str) -> None:
        for wanted, event in self._sleepers:
            if not wanted.isdisjoint(names):
                event.set()

    async def read_streams(
        self,
        streams: Mapping[str, str],
        block_s: float,
        count: int,
        *,
        trim: Mapping[str, str] | None = None,
    ) -> list[tuple[str, list[Entry]]]:
        read: Command = ("XREAD", "COUNT", count, "STREAMS", *streams.keys(), *streams.values())
        event = asyncio.Event()
        sleeper = (frozenset(_ring_name(key) for key in streams), event)
        self._sleepers.add(sleeper)
        try:
            # Its commands never suspend: without this a busy stream would starve the loop.
            await asyncio.sleep(0)
            commands = trims_of(trim or {})
            async with asyncio.timeout(min(block_s, MAX_BLOCK_S)):
                while True:
                    event.clear()
                    entries = entries_of((await self.pipeline([*commands, read]))[-1])
                    commands = []
                    if entries:
                        return entries
                    await event.wait()
        except TimeoutError:
            return []
        finally:
            self._sleepers.discard(sleeper)


class Memory:
    """The way to a server that is in this process. See ``buffer.wires.Ways``."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self._connection: Any = None
        self._compiled: set[str] = set()
        self._turn = asyncio.Lock()

    async def send(self, commands: Sequence[Command], within_s: float) -> list[Any]:
        # One connection, without the client's pool and pipeline around it: they cost more than most commands.
        results: list[Any] = []
        async with self._turn:
            if self._connection is None:
                self._connection = self._redis.connection_pool.make_connection()
                await self._connection.connect()
            commands = [await self._short(command) if command[0] == "EVALSHA" else command for command in commands]
            await self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)
            for command in commands:
                try:
                    result = await self._connection.read_response()
                except errors.ResponseError as error:
                    result = error
                else:
                    read = self._redis.response_callbacks.get(command[0])
                    result = read(result) if read is not None and result is not None else result
                results.append(result)
        return results

    def tell(self, commands: Sequence[Command], within_s: float, then: Then) -> bool:
        return False

    async def stay(self, command: Command, within_s: float) -> tuple[Wire, Any]:
        raise NotImplementedError("In a store of this very process nobody has to be found.")

    async def wait(self, commands: Sequence[Command], within_s: float) -> list[Any]:
        return await self.send(commands, within_s)

    async def _short(self, command: Command) -> Command:
        """The call of a script that has been compiled once: fakeredis would compile it at each call."""
        part = by_sha()[command[1]]
        if part.name not in self._compiled:
            source = f"redis.db_{part.name} = function()\n{part.source}\nend"
            await self._connection.send_command("EVAL", source, 0)
            await self._connection.read_response()
            self._compiled.add(part.name)
        return ("EVAL", f"return redis.db_{part.name}()", *command[2:])

    def end_in(self, within_s: float) -> None:
        """Nothing is ever under way for long."""

    def drop(self) -> None:
        """There is no other."""

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.disconnect()
            self._connection = None


def _ring_name(key: str) -> str:
    return key.partition("}:")[2].partition(":")[0]
