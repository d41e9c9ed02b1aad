"""The store: a Redis, or the embedded one. Both run the same scripts; they differ in how a reader is woken."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from redis import exceptions as errors

from buffer.scripting import Script, by_sha, script

MAX_BLOCK_S = 30.0
"""Longest blocking read."""
COMMAND_TIMEOUT_S = 5.0

Command = tuple[Any, ...]
Entry = tuple[str, dict[bytes, bytes]]
"""A stream entry: its id, its fields."""

# At the start; behind what the client puts ahead of it in a pipeline; with a dash, behind what Redis 6.2 puts ahead of
# it in a script.
_REFUSAL = re.compile(r"(?:^|: (?:-|\(['\"])?)(?:BUSY|MISCONF|NOREPLICAS|OOM|READONLY|UNBLOCKED) ")
_AWAY = (
    errors.ConnectionError,
    errors.TimeoutError,
    errors.OutOfMemoryError,
    errors.ReadOnlyError,
    errors.ClusterError,
    errors.TryAgainError,
    errors.RedisClusterException,
    OSError,
)


class StoreUnavailable(Exception):  # noqa: N818  (a state of things, not a mistake)
    """The store cannot be reached, or takes no writes now. Whether the command was carried out is not known."""


def trouble(error: BaseException) -> bool:
    """Whether an error of the client means that the store is not to be had now, rather than that the command was
    wrong.
    """
    if isinstance(error, _AWAY):
        return True
    text = str(error) if isinstance(error, errors.ResponseError) else ""
    return _REFUSAL.search(text) is not None


def unavailable(error: BaseException) -> StoreUnavailable:
    return StoreUnavailable(f"The store is not available ({type(error).__name__}).")


_CAUGHT = (errors.RedisError, errors.RedisClusterException, OSError)


class Store:
    """A connected Redis, Valkey, Sentinel group or Cluster. Open one with ``buffer.store.open_store``."""

    embedded = False

    def __init__(self, redis: Any, blocking: Any, *, prefix: str) -> None:
        self.redis = redis
        """The client, for tests and rare commands: no time limit, errors of its own. Else ``exchange``."""
        self.prefix = prefix
        self._blocking = blocking

    async def script(self, name: str, *, keys: Sequence[str], args: Sequence[Any], again: bool = True) -> Any:
        """Runs ``scripts/<name>.lua``. ``again``: it does no harm twice, so try once more on a fresh connection.

        Raises ``StoreUnavailable``.
        """
        part = script(name)
        command = ("EVALSHA", part.sha, len(keys), *keys, *args)
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                try:
                    return await self.one(command)
                except errors.NoScriptError:
                    await self._load(part)
                    return await self.one(command)
                except errors.ConnectionError:
                    if not again:
                        raise
                    await self._load(part)
                    return await self.one(command)
        except _CAUGHT as error:
            if trouble(error):
                raise unavailable(error) from error
            raise

    async def one(self, command: Command) -> Any:
        """One command. Raises the client's own errors."""
        return await self.redis.execute_command(*command)

    async def _load(self, part: Script) -> None:
        await self.redis.script_load(part.source)

    @staticmethod
    def call(name: str, *, keys: Sequence[str], args: Sequence[Any]) -> Command:
        """A script as a command for ``exchange``."""
        return ("EVALSHA", script(name).sha, len(keys), *keys, *args)

    async def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Sends the commands in this order on one connection, in one turn; gives their results, an error of a single
        command in its place.

        A script that the store does not know is loaded and sent again, behind the rest. Raises ``StoreUnavailable``.
        """
        results = await self.pipeline(commands)
        unknown = [i for i, result in enumerate(results) if isinstance(result, errors.NoScriptError)]
        if unknown:
            shas = {commands[i][1] for i in unknown}
            try:
                async with asyncio.timeout(COMMAND_TIMEOUT_S):
                    for sha in shas:
                        await self._load(by_sha()[sha])
            except _CAUGHT as error:
                raise unavailable(error) from error
            for i, result in zip(unknown, await self.pipeline([commands[i] for i in unknown]), strict=True):
                results[i] = result
        for result in results:
            if isinstance(result, Exception) and trouble(result):
                raise unavailable(result) from result
        return results

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Commands in one turn, as ``exchange`` sends them. Raises ``StoreUnavailable``."""
        pipe = self.redis.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                results: list[Any] = await pipe.execute(raise_on_error=False)
        except _CAUGHT as error:
            if trouble(error):
                raise unavailable(error) from error
            raise
        return results

    async def read_streams(
        self,
        streams: Mapping[str, str],
        block_s: float,
        count: int,
        *,
        trim: Mapping[str, str] | None = None,
    ) -> list[tuple[str, list[Entry]]]:
        """Entries beyond the ids given, ``count`` a stream at most; waits up to ``block_s`` (≤ 30) for the first.
        Empty: none came.

        ``trim``: stream → id of an entry that was processed; what is older is dropped, in the same turn. Raises
        ``StoreUnavailable``.
        """
        block_ms = max(1, int(min(block_s, MAX_BLOCK_S) * 1000))
        read: Command = ("XREAD", "COUNT", count, "BLOCK", block_ms, "STREAMS", *streams.keys(), *streams.values())
        try:
            async with asyncio.timeout(block_ms / 1000 + COMMAND_TIMEOUT_S):
                if trim:
                    pipe = self._blocking.pipeline(transaction=False)
                    for key, last in trim.items():
                        pipe.execute_command("XTRIM", key, "MINID", last)
                    pipe.execute_command(*read)
                    reply = (await pipe.execute())[-1]
                else:
                    reply = await self._blocking.execute_command(*read)
        except _CAUGHT as error:
            if trouble(error):
                raise unavailable(error) from error
            raise
        return entries_of(reply)

    def ring(self, *names: str) -> None:
        """Wakes embedded readers of the streams so named: ``jobs``, ``bell``, ``ctl``, ``inbox``. A Redis wakes its
        own.
        """

    async def ping(self) -> None:
        """Raises ``StoreUnavailable``."""
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                await self.redis.ping()
        except _CAUGHT as error:
            raise unavailable(error) from error

    async def aclose(self) -> None:
        await self.redis.aclose()
        await self._blocking.aclose()


def entries_of(reply: Any) -> list[tuple[str, list[Entry]]]:
    return [
        (key.decode(), [(id.decode(), fields or {}) for id, fields in entries])
        for key, entries in reply or ()
        if entries
    ]
