"""One HTTP request and its answer over ASGI, with as little between as there can be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

import msgspec

from simulate.driver import Driver, GoneError, Group

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 100 * 1024 * 1024
SSE = "text/event-stream; charset=utf-8"
NDJSON = "application/x-ndjson"
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class HttpError(Exception):
    """A request that gets an error for an answer. ``str()`` is for the client; ``param`` names the field at fault."""

    def __init__(self, status: int, message: str, *, kind: str = "", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param


class Exchange:
    """A request to read and an answer to write."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self.started = False

    async def body(self) -> bytes:
        """The whole body. Raises ``HttpError`` if it is too large, ``GoneError`` if the client leaves meanwhile."""
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise GoneError
            piece = message.get("body", b"")
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise HttpError(413, "the body is too large")
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    async def json(self, value: object, status: int = 200, content_type: str = JSON) -> None:
        await self.whole(msgspec.json.encode(value), status, content_type)

    async def whole(self, body: bytes, status: int = 200, content_type: str = TEXT) -> None:
        """Answer with a body that is complete."""
        await self._head(status, content_type, (b"content-length", str(len(body)).encode()))
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, content_type: str) -> None:
        """Send the head of a stream, once."""
        if not self.started:
            await self._head(200, content_type, (b"cache-control", b"no-cache"))

    async def write(self, piece: bytes) -> None:
        if piece:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _head(self, status: int, content_type: str, *more: tuple[bytes, bytes]) -> None:
        self.started = True
        headers = [(b"content-type", content_type.encode()), *more]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def answer(self, driver: Driver, group: Group, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work``, which answers from ``group``, while the client stays; if it leaves, the group is cancelled."""

        async def watch() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            driver.cancel(group)

        try:
            async with asyncio.TaskGroup() as tasks:
                watcher = tasks.create_task(watch())
                try:
                    await work
                except GoneError:
                    return
                finally:
                    watcher.cancel()
        finally:
            driver.cancel(group)
