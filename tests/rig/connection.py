"""A connection to the scripted back end, from the server's side: reads requests, notices when the peer leaves."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from dataclasses import dataclass, field
from typing import Any, Protocol, cast


@dataclass(eq=False)
class Recorded:
    """One request. Instants are ``time.monotonic()``."""

    at: float
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """Running number of the connection it came on."""
    peer_closed_at: float | None = None
    answered_at: float | None = None
    closed: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """The peer has closed."""

    def json(self) -> Any:
        return json.loads(self.body)


class Host(Protocol):
    connections: set[Connection]
    connected: int

    def start(self, connection: Connection, request: Recorded) -> None: ...


class Connection(asyncio.Protocol):
    def __init__(self, server: Host) -> None:
        self.server = server
        self.buffer = bytearray()
        self.current: Recorded | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's by class.
        self.transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections.add(self)
        self.server.connected += 1
        self.number = self.server.connected

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._advance()

    def _advance(self) -> None:
        if self.current is not None or (cut := self.buffer.find(b"\r\n\r\n")) < 0:
            return
        first, *rest = self.buffer[:cut].decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, _, v in (item.partition(":") for item in rest)}
        if headers.get("transfer-encoding") == "chunked":
            found = self._unchunk(cut + 4)
            if found is None:
                return
            body, end = found
        else:
            end = cut + 4 + int(headers.get("content-length", "0"))
            if len(self.buffer) < end:
                return
            body = bytes(self.buffer[cut + 4 : end])
        del self.buffer[:end]
        self.current = Recorded(time.monotonic(), method, path, headers, body, self.number)
        self.server.start(self, self.current)

    def _unchunk(self, at: int) -> tuple[bytes, int] | None:
        body = bytearray()
        while (end := self.buffer.find(b"\r\n", at)) >= 0:
            size = int(self.buffer[at:end].split(b";")[0], 16)
            if len(self.buffer) < end + 4 + size:
                return None
            body += self.buffer[end + 2 : end + 2 + size]
            at = end + 4 + size
            if size == 0:
                return bytes(body), at
        return None

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def eof_received(self) -> bool:
        self._gone()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        self.server.connections.discard(self)

    def _gone(self) -> None:
        if not self.closed.is_set() and self.current is not None:
            self.current.peer_closed_at = time.monotonic()
            self.current.closed.set()
        self.closed.set()
        self.writable.set()

    async def write(self, data: bytes) -> None:
        if self.closed.is_set():
            raise ConnectionResetError
        self.transport.write(data)
        await self.writable.wait()
        await asyncio.sleep(0)

    def next(self) -> None:
        """The answer is complete: on to the connection's next request."""
        self.current = None
        self._advance()


class Server:
    """Serves each request in a task of its own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, connection: Connection, request: Recorded) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(connection, request))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
            raise error

    async def _serve(self, connection: Connection, request: Recorded) -> None:
        raise NotImplementedError
