"""The way to a master that Sentinels watch over: each new connection asks them where it is by now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redis import exceptions as errors
from redis.asyncio import Redis
from redis.asyncio.connection import Connection
from redis.asyncio.sentinel import MasterNotFoundError

ASK_S = 1.0
"""How long one Sentinel has to answer."""
LOOK_EVERY_S = 1.0


class Sentinels:
    """``service``: the name that the master has there. ``options``: of the connections to them."""

    def __init__(self, places: Sequence[tuple[str, int]], service: str, options: dict[str, Any]) -> None:
        self._service = service
        self._clients = [Redis(host=host, port=port, **options) for host, port in places]
        self.known: tuple[str, int] | None = None
        """Where the master was found the last time."""
        self._told: tuple[str, int] | None = None
        self._looked_at = float("-inf")

    async def master(self) -> tuple[str, int]:
        """Host and port, from the first Sentinel that knows them. Raises ``MasterNotFoundError`` or, where there is no
        Sentinel or they know of no such service, ``ConnectionError`` of redis-py.
        """
        answered = named = False
        for client in list(self._clients):
            try:
                async with asyncio.timeout(ASK_S):
                    masters: Any = await client.sentinel_masters()
            except (errors.RedisError, OSError, TimeoutError):
                continue
            found = masters.get(self._service)
            answered, named = True, named or found is not None
            if found and found["is_master"] and not found["is_sdown"] and not found["is_odown"]:
                self._clients.remove(client)
                self._clients.insert(0, client)
                self.known = str(found["ip"]), int(found["port"])
                return self.known
        if named:
            raise MasterNotFoundError("No master found")
        raise errors.ConnectionError("No such service" if answered else "No Sentinel answers")

    async def moved(self) -> bool:
        """Whether another server is the master by now; asks once in ``LOOK_EVERY_S``.

        A master that is replaced while it lives goes on taking writes, which nobody will ever see, until the Sentinels
        get round to telling it: ten seconds later, if nobody cuts its connections.
        """
        now = asyncio.get_running_loop().time()
        if self.known is None or now - self._looked_at < LOOK_EVERY_S:
            return False
        self._looked_at = now
        before = self._told or self.known
        try:
            self._told = await self.master()
        except errors.ConnectionError:
            return False
        return self._told != before

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()


class MasterConnection(Connection):
    """A connection to whoever is the master when it is opened."""

    def __init__(self, *, sentinels: Sentinels, **options: Any) -> None:
        self._sentinels = sentinels
        super().__init__(**options)

    @property
    def outdated(self) -> bool:
        """Whether it leads to a server that is the master no more."""
        return (self.host, self.port) != self._sentinels.known

    async def _connect(self) -> None:
        self.host, self.port = await self._sentinels.master()
        connect: Any = super()._connect  # it has no annotations
        await connect()
