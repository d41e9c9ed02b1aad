"""A server as the commands run it, and clients that speak to it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from typing import Any

from buffer.settings import Settings
from doublebuffer.guard import ClientLimits
from doublebuffer.serving import bind, serve
from gateway.app import create_app
from tests.gateway.rig import free_store

LIMITS = ClientLimits(connections=20, head_bytes=8192, head_s=0.4, pipelined=4, linger_s=0.3, unread_s=0.5)
GET = b"GET /api/version HTTP/1.1\r\nHost: x\r\n"


@contextlib.asynccontextmanager
async def serving(app: Any, limits: ClientLimits = LIMITS) -> AsyncIterator[int]:
    listener = bind("127.0.0.1", 0)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(serve(app, listener, stop, drain_s=0, limits=limits))
        try:
            yield listener.getsockname()[1]
        finally:
            stop.set()
            await running


@contextlib.asynccontextmanager
async def gateway(limits: ClientLimits = LIMITS, **settings: Any) -> AsyncIterator[int]:
    store = await free_store()
    try:
        async with serving(create_app(Settings(**settings), store), limits) as port:
            yield port
    finally:
        await store.aclose()


class Peer:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def at(cls, port: int) -> Peer:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def end(self, *, within_s: float = 5.0) -> bytes:
        """All that comes until the server closes; a reset is an end too."""
        data = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(within_s):
                while piece := await self.reader.read(65536):
                    data += piece
        self.writer.close()
        return data

    async def drips(self, data: bytes, every_s: float) -> float:
        """Sends a byte at a time until the server has had enough; how long that took."""
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in data:
                if self.reader.at_eof() or self.writer.is_closing() or time.monotonic() - began > 5:
                    break
                self.writer.write(bytes([byte]))
                await self.writer.drain()
                await asyncio.sleep(every_s)
        return time.monotonic() - began


async def said(port: int, *pieces: bytes) -> bytes:
    peer = await Peer.at(port)
    for piece in pieces:
        peer.writer.write(piece)
        await asyncio.sleep(0)
    return await peer.end()


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]


async def alive(port: int) -> None:
    assert statuses(await said(port, GET + b"Connection: close\r\n\r\n")) == [200]
