"""The store: a Redis, or the embedded one. Both run the same scripts; they differ in how a reader is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis import exceptions as errors

from buffer.entries import Entry, entries_of, trims_of
from buffer.link import COMMAND_TIMEOUT_S, EAGER_S, ONCE_S, Link
from buffer.mending import Mending
from buffer.scripting import by_sha, script
from buffer.trouble import FULL, SPOILT, StoreUnavailable, Trouble, spoilt, trouble, unavailable
from buffer.wire import Command, Then, Wire

__all__ = ["COMMAND_TIMEOUT_S", "MAX_BLOCK_S", "Command", "Store", "StoreUnavailable", "trouble"]

MAX_BLOCK_S = 30.0
"""Longest blocking read."""
EAGER_BYTES_S = 10_000_000
"""Bytes for each of which a second more is waited: a picture takes its time."""

FULL_S = 60.0
"""How long a store that was out of memory is taken to be so still."""


class Store:
    """A connected Redis or Valkey. Open one with ``buffer.store.open_store``.

    Whatever it is asked raises ``StoreUnavailable``: at once while the store is known to be away, unless the caller is
    ``patient``.
    """

    embedded = False

    def __init__(self, link: Link, *, prefix: str) -> None:
        self._link = link
        self.prefix = prefix
        self._mending = Mending(self)
        self._full_until = float("-inf")
        """Seconds of the loop's clock."""

    @property
    def redis(self) -> Any:
        """The client, for tests: no time limit, errors of its own. Else ``exchange``."""
        return self._link.redis

    def away(self, key: str = "") -> Trouble | None:
        """Why ``key`` cannot be had at the moment, as far as is known. None: nothing is known to stand in the way."""
        return self._link_of(key).reach.away

    def _link_of(self, key: str) -> Link:
        """The server that has ``key``."""
        return self._link

    # --- commands

    async def script(
        self, name: str, *, keys: Sequence[str], args: Sequence[Any], again: bool = True, patient: bool = False
    ) -> Any:
        """Runs ``scripts/<name>.lua``. ``again``: it does no harm twice, so it is tried once more on a fresh
        connection.
        """
        call = self.call(name, keys=keys, args=args)
        within_s = COMMAND_TIMEOUT_S if again else ONCE_S
        (result,) = await self.exchange([call], again=again, patient=patient, within_s=within_s)
        if isinstance(result, Exception):
            raise result
        return result

    @staticmethod
    def call(name: str, *, keys: Sequence[str], args: Sequence[Any]) -> Command:
        """A script as a command for ``exchange``."""
        return ("EVALSHA", script(name).sha, len(keys), *keys, *args)

    def pressing(self, base: str, command: Command) -> Command:
        """The command in a form that a store which is out of memory still carries out: what frees memory waits for
        it. A script costs ten times the command, so that form is taken once the store has said that it is full.
        """
        if asyncio.get_running_loop().time() > self._full_until:
            return command
        return self.call("press", keys=[base], args=[1, *command])

    async def exchange(
        self,
        commands: Sequence[Command],
        *,
        again: bool = True,
        patient: bool = False,
        within_s: float = COMMAND_TIMEOUT_S,
    ) -> list[Any]:
        """Sends the commands in this order on one connection, in one turn; gives their results, an error of a single
        command in its place.

        A script that the store does not know is loaded and sent again, behind the rest. ``again``: if the connection
        breaks, all of them are sent once more.
        """
        began_at = asyncio.get_running_loop().time()
        results = await self.pipeline(commands, again=again, patient=patient, within_s=within_s)
        for result in results:
            if isinstance(result, Exception):
                break
        else:
            return results
        unknown = [i for i, result in enumerate(results) if isinstance(result, errors.NoScriptError)]
        if unknown:
            rest = [commands[i] for i in unknown]
            # All that there are: known in part, they would be carried out in another order than they were sent.
            loads: list[Command] = [("SCRIPT", "LOAD", part.source) for part in by_sha().values()]
            found = await self._beside(rest[0], [*loads, *rest], again=again, within_s=within_s)
            for i, result in zip(unknown, found[len(loads) :], strict=True):
                results[i] = result
        for i, (command, result) in enumerate(zip(commands, results, strict=True)):
            if isinstance(result, Exception) and await self._mended(command, result, began_at):
                if again:
                    (results[i],) = await self._beside(command, [command], again=again, within_s=within_s)
                if isinstance(results[i], Exception):
                    raise unavailable(SPOILT) from results[i]
        return results

    def tell(self, commands: Sequence[Command], then: Then) -> bool:
        """As ``exchange``, where nothing has to be waited for: ``then`` is called with what came of each command, or
        with None; ``exchange`` makes the best of whatever failed. False: this is no time for it, and nothing was done.
        """
        return self._link.tell(commands, then)

    async def eager(self, commands: Sequence[Command]) -> list[Any]:
        """As ``exchange``, for somebody who would rather be refused than wait: for ``EAGER_S``, and as long as large
        arguments take.
        """
        size = 0
        for command in commands:
            for part in command:
                if type(part) is bytes:
                    size += len(part)
        return await self.exchange(commands, within_s=EAGER_S + size / EAGER_BYTES_S)

    async def pipeline(
        self, commands: Sequence[Command], *, again: bool, patient: bool, within_s: float = COMMAND_TIMEOUT_S
    ) -> list[Any]:
        """Commands in one turn, as ``exchange`` sends them, and what the server said to each."""
        return await self._link.run(commands, within_s=within_s, again=again, patient=patient)

    async def _beside(self, like: Command, commands: Sequence[Command], *, again: bool, within_s: float) -> list[Any]:
        """Commands to the server that ``like`` went to."""
        return await self.pipeline(commands, again=again, patient=False, within_s=within_s)

    async def _mended(self, command: Command, error: Exception, began_at: float) -> bool:
        """Whether it is worth to try a command again that failed because of what the store held.

        An error of the store's is raised as such, one of the command's own is left.
        """
        if refusal := await self._link_of(key_of(command)).refuse(error):
            if trouble(error) is FULL:
                self._full_until = asyncio.get_running_loop().time() + FULL_S
            raise refusal from error
        if not spoilt(error, script=command[0] == "EVALSHA"):
            return False
        name = by_sha()[command[1]].name if command[0] == "EVALSHA" else command[0]
        if not await self._mending.due_to(name, key_of(command), began_at):
            raise unavailable(SPOILT) from error
        return True

    # --- reads that wait

    async def read_streams(
        self,
        streams: Mapping[str, str],
        block_s: float,
        count: int,
        *,
        trim: Mapping[str, str] | None = None,
    ) -> list[tuple[str, list[Entry]]]:
        """Entries beyond the ids given, ``count`` a stream at most; waits up to ``block_s`` (≤ 30) for the first, and
        a little for a store that is away. Empty: none came.

        ``trim``: stream → id of an entry that was processed; it and what is older is dropped, in the same turn.
        """
        block_ms = max(1, int(min(block_s, MAX_BLOCK_S) * 1000))
        read: Command = ("XREAD", "COUNT", count, "BLOCK", block_ms, "STREAMS", *streams.keys(), *streams.values())
        trims = trims_of(trim or {})
        began_at = asyncio.get_running_loop().time()
        result = await self._read([*trims, read], block_ms / 1000)
        if isinstance(result, Exception):
            raise (unavailable(SPOILT) if await self._mended(read, result, began_at) else result) from result
        return entries_of(result)

    async def _read(self, commands: Sequence[Command], block_s: float) -> Any:
        return await self._link.read(commands, block_s)

    async def attend(self, channel: str) -> Wire | None:
        """Subscribes to a channel on which nothing is ever said: while the connection is open, scripts see that
        somebody is there. None: that may not be.
        """
        wire, answer = await self._stay(("SUBSCRIBE", channel))
        if isinstance(answer, Exception):
            wire.close()
            return None
        return wire

    async def _stay(self, command: Command) -> tuple[Wire, Any]:
        return await self._link.stay(command)

    def ring(self, *names: str) -> None:
        """Wakes embedded readers of the streams so named: ``jobs``, ``bell``, ``ctl``, ``inbox``. A Redis wakes its
        own.
        """

    # --- the store itself

    async def ping(self) -> None:
        """Returns if the store answers as it should."""
        (result,) = await self.exchange([("PING",)])
        if isinstance(result, Exception):
            raise result

    async def takes_writes(self, base: str) -> None:
        """Returns if the store takes something new among the names that begin with ``base``."""
        (result,) = await self.eager([("SET", f"{base}write", "", "EX", 60)])
        if isinstance(result, Exception):
            raise result

    async def info(self, section: str) -> dict[str, Any]:
        """What the server tells of itself. Raises redis-py's ``ResponseError`` where the user may not ask."""
        (result,) = await self.eager([("INFO", section)])
        if isinstance(result, Exception):
            raise result
        return dict(result)

    async def aclose(self) -> None:
        await self._link.aclose()


def key_of(command: Command) -> str:
    """The key by which a command finds its server; empty: any will do."""
    match command[0]:
        case "EVALSHA":
            key = command[3]
        case "XREAD":
            key = command[command.index("STREAMS") + 1]
        case "SCAN":
            key = command[3]
        case "PING" | "INFO" | "SCRIPT" | "CLUSTER":
            key = ""
        case _:
            key = command[1]
    return key.decode() if isinstance(key, bytes) else str(key)
