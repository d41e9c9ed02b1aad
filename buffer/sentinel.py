"""The way to a master that Sentinels watch over: each new connection asks them where it is by now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis import exceptions as errors
from redis.asyncio import Redis
from redis.asyncio.connection import Connection
from redis.asyncio.sentinel import MasterNotFoundError

ASK_S = 1.0
"""How long one Sentinel has to answer."""


class Sentinels:
    """``service``: the name that the master has there. ``options``: of the connections to them."""

    def __init__(self, places: Sequence[tuple[str, int]], service: str, options: dict[str, Any]) -> None:
        self._service = service
        self._clients = [Redis(host=host, port=port, **options) for host, port in places]

    async def master(self) -> tuple[str, int]:
        """Host and port, from the first Sentinel that knows them. Raises ``MasterNotFoundError``."""
        for client in list(self._clients):
            try:
                async with asyncio.timeout(ASK_S):
                    masters: Any = await client.sentinel_masters()
            except (errors.RedisError, OSError, TimeoutError):
                continue
            found = masters.get(self._service)
            if found and found["is_master"] and not found["is_sdown"] and not found["is_odown"]:
                self._clients.remove(client)
                self._clients.insert(0, client)
                return str(found["ip"]), int(found["port"])
        raise MasterNotFoundError(f"No master found for {self._service!r}")

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()


class MasterConnection(Connection):
    """A connection to whoever is the master when it is opened."""

    def __init__(self, *, find: Callable[[], Awaitable[tuple[str, int]]], **options: Any) -> None:
        self._find = find
        super().__init__(**options)

    async def _connect(self) -> None:
        self.host, self.port = await self._find()
        connect: Any = super()._connect  # it has no annotations
        await connect()
