"""One server of the store: its connections, and what their errors mean."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis import exceptions as errors

from buffer.reach import LOOK_S, Reach
from buffer.trouble import CAUGHT, REPLICA, StoreUnavailable, trouble, unavailable
from buffer.wire import Command, Then, Wire
from buffer.wires import Ways

COMMAND_TIMEOUT_S = 5.0
EAGER_S = 1.5
"""How long somebody waits who would rather be refused."""
ONCE_S = 15.0
"""How long a command is waited for that must not be sent twice, and whose lost answer costs a lease."""


class Link:
    """``redis``: redis-py's client, for tests; ``ways``: for all else; ``name``: for the log; ``moved``: whether it is
    another server by now; ``close``: what else is to be closed with it.
    """

    def __init__(
        self,
        redis: Any,
        ways: Ways,
        name: str,
        *,
        moved: Callable[[], Awaitable[bool]] | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.redis = redis
        self._ways = ways
        self._moved = moved
        self._close = close
        self.reach = Reach(self._look, name, ways.end_in)

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
            try:
                results = await self._ways.send(commands, within_s)
            except errors.ConnectionError:
                if not again:
                    raise
                results = await self._ways.send(commands, within_s)
        except CAUGHT as error:
            if (found := trouble(error)) is None:
                raise
            raise self.reach.failed(found, began_at) from error
        self.reach.heard()
        return results

    def tell(self, commands: Sequence[Command], then: Then, *, within_s: float = COMMAND_TIMEOUT_S) -> bool:
        """As ``run``, where that can be done at once: see ``Ways.tell``. What a failure means ``run`` finds out."""
        if self.reach.away_now or self._moved is not None:
            return False

        def came(results: list[Any] | None) -> None:
            if results is not None:
                self.reach.heard()
            then(results)

        return self._ways.tell(commands, within_s, came)

    async def _ready(self, patient: bool) -> None:
        await self.reach.there(patient=patient)
        if self._moved is not None and await self._moved():
            self.drop()
            self.reach.hurry()

    async def read(self, commands: Sequence[Command], block_s: float) -> Any:
        """As ``run``, patient, where the last command waits up to ``block_s``; only its result."""
        await self._ready(True)
        began_at = asyncio.get_running_loop().time()
        try:
            *_, result = await self._ways.wait(commands, block_s + COMMAND_TIMEOUT_S)
        except CAUGHT as error:
            if (found := trouble(error)) is None:
                raise
            raise await self.reach.doubted(found, began_at) from error
        self.reach.heard()
        return result

    async def stay(self, command: Command) -> tuple[Wire, Any]:
        """Sends a command on a connection of its own, which stays open until closed or lost; that, and what came.
        Nobody else suffers where that may not be: some proxies, and servers with connections enough, refuse it.
        """
        await self._ready(False)
        try:
            return await self._ways.stay(command, EAGER_S)
        except CAUGHT as error:
            if (found := trouble(error)) is None:
                raise
            raise unavailable(found) from error

    async def refuse(self, error: Exception) -> StoreUnavailable | None:
        """What to raise for the error of a single command, if it is the server's and not the command's."""
        found = trouble(error)
        if found is None:
            return None
        if found is REPLICA:
            # Another server is the master by now: none of these connections leads there.
            self.drop()
        return self.reach.refused(found)

    def drop(self) -> None:
        """From here on new connections are used."""
        self._ways.drop()

    async def _look(self) -> None:
        try:
            await self._ways.send([("PING",)], LOOK_S)
        except CAUGHT as error:
            if (found := trouble(error)) is None:
                raise
            raise unavailable(found) from error

    async def aclose(self) -> None:
        await self._ways.aclose()
        await self.redis.aclose()
        if self._close is not None:
            await self._close()
