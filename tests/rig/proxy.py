"""A wire between a client and a server that can be slow, dead or cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

_AT_ONCE = 65536


class Proxy:
    """Listens on a free port of 127.0.0.1 and passes on to ``port``; ``async with``."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.delay_s = 0.0
        """Of every piece, each way."""
        self.opened = 0
        """Connections that were ever made."""
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def open(self) -> int:
        """Connections now."""
        return len(self._tasks)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.pass_on()
        self.reset()
        for task in list(self._tasks):
            task.cancel()

    def reset(self) -> None:
        """Cuts every connection with a TCP reset."""
        for writer in list(self._writers):
            link = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def swallow(self) -> None:
        """Whatever comes is kept, and nothing says so: a dead wire."""
        self._flows.clear()

    def pass_on(self) -> None:
        self._flows.set()

    def strand(self) -> None:
        """Connections that are open now lead nowhere any more; new ones work."""
        self._flows.clear()
        self._flows = asyncio.Event()
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._kept(writer):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
                async with self._kept(far_writer), asyncio.TaskGroup() as group:
                    there = group.create_task(self._carry(reader, far_writer))
                    back = group.create_task(self._carry(far_reader, writer))
                    await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
                    there.cancel()
                    back.cancel()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)

    @contextlib.asynccontextmanager
    async def _kept(self, writer: asyncio.StreamWriter) -> AsyncIterator[None]:
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flows = self._flows
        with contextlib.suppress(OSError):
            while piece := await reader.read(_AT_ONCE):
                await flows.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(piece)
                await writer.drain()
