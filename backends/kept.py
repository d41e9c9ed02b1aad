"""Connections to one engine that are kept open between requests."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import aiohappyeyeballs
import httpx

from backends.http import Connection

KEEP_ALIVE_S = 4.0
"""Idle connections go before uvicorn's and llama.cpp's servers close them, which they do after 5 s: a request that
meets the closing fails without having been read."""
EAGER_S = 0.25
"""How long one of an engine's addresses is tried before the next one is too."""


class UnreachableError(OSError):
    """No connection could be made."""


class SlowError(OSError):
    """None was made in time."""


class Kept:
    """``url``: where the engine is; ``tls``: makes the context of its connections, if it is reached by TLS."""

    def __init__(self, url: httpx.URL, tls: Callable[[], ssl.SSLContext] | None, *, connect_timeout_s: float) -> None:
        self._host = url.host
        self._port = url.port or (80 if tls is None else 443)
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def take(self) -> Connection | None:
        """One that was kept, if there is any."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                self._busy.add(connection)
                return connection
        return None

    async def new(self, until_at: float) -> Connection:
        """Raises ``UnreachableError``, ``SlowError`` and, at ``until_at``, ``TimeoutError``."""
        try:
            async with asyncio.timeout_at(until_at), asyncio.timeout(self._connect_timeout_s) as limit:
                connection = await self._open()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise SlowError("No connection was made in time.") from error
        except (OSError, UnicodeError) as error:
            raise UnreachableError(str(error)) from error
        self._busy.add(connection)
        return connection

    def put_back(self, connection: Connection) -> None:
        """Nothing is asked on it any more. One whose answer was not read to its end is closed."""
        self._busy.discard(connection)
        if not connection.reusable:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = loop.call_later(KEEP_ALIVE_S, self._tidy)

    def _tidy(self) -> None:
        """Those that have been idle for longest are first."""
        self._timer = None
        loop = asyncio.get_running_loop()
        old_at = loop.time() - KEEP_ALIVE_S + 0.001
        while self._idle and self._idle[0].idle_since <= old_at:
            self._idle.pop(0).close()
        if self._idle:
            self._timer = loop.call_at(self._idle[0].idle_since + KEEP_ALIVE_S, self._tidy)

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        sock = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=EAGER_S, interleave=1)
        if self._tls is not None and self._context is None:
            self._context = self._tls()
        name = None if self._context is None else self._host
        _, connection = await loop.create_connection(Connection, sock=sock, ssl=self._context, server_hostname=name)
        return connection

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()
        self._busy.clear()
