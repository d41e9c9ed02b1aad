"""The client's connections to one server: so many, shared by all callers, opened when they are needed."""

from __future__ import annotations

from typing import Any

from redis.asyncio import BlockingConnectionPool


class Connections(BlockingConnectionPool):
    """Those that are open are used first: where the server takes no more, the rest of them still do."""

    async def release(self, connection: Any) -> None:
        if getattr(connection, "outdated", False):
            await connection.disconnect()
        await super().release(connection)
        free = self._available_connections
        if not connection.is_connected and connection in free:
            free.remove(connection)
            free.insert(0, connection)
