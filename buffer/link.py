"""One server of the store: its connections, and what their errors mean."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis import exceptions as errors

from buffer.reach import Reach
from buffer.trouble import CAUGHT, NO_DATABASE, REPLICA, StoreUnavailable, trouble, unavailable

Command = tuple[Any, ...]

COMMAND_TIMEOUT_S = 5.0
EAGER_S = 1.5
"""How long somebody waits who would rather be refused."""
ONCE_S = 15.0
"""How long a command is waited for that must not be sent twice, and whose lost answer costs a lease."""


class Link:
    """``redis``: the client for commands; ``blocking``: one with connections of its own, for reads that wait; ``name``:
    for the log; ``moved``: whether it is another server by now; ``close``: what else is to be closed with it.
    """

    def __init__(
        self,
        redis: Any,
        blocking: Any,
        name: str,
        *,
        moved: Callable[[], Awaitable[bool]] | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.redis = redis
        self._blocking = blocking
        self._moved = moved
        self._close = close
        self.reach = Reach(self._look, name)

    async def run(
        self, commands: Sequence[Command], *, within_s: float = COMMAND_TIMEOUT_S, again: bool, patient: bool
    ) -> list[Any]:
        """Sends the commands in this order on one connection; their results, errors of single ones in their place.

        ``again``: they do no harm twice, so they are sent again if their connection breaks. ``patient``: see
        ``Reach.there``. Raises ``StoreUnavailable``.
        """
        if self.reach.away_now or self._moved is not None:
            await self._ready(patient)
        began_at = asyncio.get_running_loop().time()
        try:
            async with self.reach.limit(within_s):
                try:
                    results = await _sent(self.redis, commands)
                except errors.ConnectionError:
                    if not again:
                        raise
                    results = await _sent(self.redis, commands)
        except CAUGHT as error:
            if (found := trouble(error)) is None:
                raise
            raise self.reach.failed(found, began_at) from error
        self.reach.heard()
        return results

    async def _ready(self, patient: bool) -> None:
        await self.reach.there(patient=patient)
        if self._moved is not None and await self._moved():
            await self.drop()
            self.reach.hurry()

    async def read(self, commands: Sequence[Command], block_s: float) -> Any:
        """As ``run``, patient, where the last command waits up to ``block_s``; only its result."""
        await self._ready(True)
        began_at = asyncio.get_running_loop().time()
        try:
            async with self.reach.limit(block_s + COMMAND_TIMEOUT_S):
                *_, result = await _sent(self._blocking, commands)
        except CAUGHT as error:
            if (found := trouble(error)) is None:
                raise
            raise await self.reach.doubted(found, began_at) from error
        self.reach.heard()
        return result

    async def refuse(self, error: Exception) -> StoreUnavailable | None:
        """What to raise for the error of a single command, if it is the server's and not the command's."""
        found = trouble(error)
        if found is None:
            return None
        if found is REPLICA:
            # Another server is the master by now: none of these connections leads there.
            await self.drop()
        return self.reach.refused(found)

    async def drop(self) -> None:
        """Gives up connections that nobody uses now."""
        for client in (self.redis, self._blocking):
            await client.connection_pool.disconnect(inuse_connections=False)

    async def _look(self) -> None:
        try:
            await _sent(self.redis, [("PING",)])
        except CAUGHT as error:
            if (found := trouble(error)) is None:
                raise
            raise unavailable(found) from error

    async def aclose(self) -> None:
        await self.redis.aclose()
        await self._blocking.aclose()
        if self._close is not None:
            await self._close()


async def _sent(client: Any, commands: Sequence[Command]) -> list[Any]:
    try:
        if len(commands) == 1:
            try:
                return [await client.execute_command(*commands[0])]
            except errors.ResponseError as error:
                if trouble(error) is NO_DATABASE:  # said to the connection, before any command
                    raise
                return [error]
        pipe = client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        results: list[Any] = await pipe.execute(raise_on_error=False)
        return results
    except RuntimeError as error:
        # A connection that was reset between two commands: uvloop refuses to write to it in words of its own.
        if "handler is closed" not in str(error):
            raise
        raise errors.ConnectionError("The connection was closed.") from error
