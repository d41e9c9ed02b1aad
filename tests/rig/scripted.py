"""A scripted back end: a raw HTTP server that sends exactly what a test tells it, and remembers what it was sent.

In a test: ``async with Scripted("openai", script=[role(), "one", RST]) as engine: ... engine.url``. As a process of its
own: ``python -m tests.rig.scripted --flavour openai --port 0`` prints its port; ``POST /_script`` takes a JSON script
(see ``script.parse``) for the next chat request (``?always`` for all), ``GET /_recorded`` tells the chat requests so
far, ``POST /_reset`` forgets both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self

from tests.rig import shelf
from tests.rig.connection import Connection, Recorded, Server
from tests.rig.embeddings import PATHS, Embeddings
from tests.rig.engine import Engine, pages
from tests.rig.script import Flavour, Piece, Sleep, Status, Wait, Word, encode, parse
from tests.rig.strict import Judge
from tests.rig.text import TEXTS

Script = Iterable[Piece] | Callable[[Recorded], Iterable[Piece] | AsyncIterator[Piece]]
CHATS = ("/v1/chat/completions", "/api/chat", *TEXTS)


class Scripted(Server):
    """``requests`` holds the chat requests, ``others`` all else. ``script`` answers chats once ``once`` is empty."""

    def __init__(
        self,
        flavour: Flavour = "openai",
        *,
        kind: str = "",
        models: Iterable[str] = (),
        script: Script | None = None,
        engine: Engine | None = None,
        headers: dict[str, str] | None = None,
        judge: Judge | None = None,
        port: int = 0,
        **listing: Any,
    ) -> None:
        """``kind``: of ``BackendSpec``, for the lists. ``headers``: on every answer. ``judge``: what it answers
        stands before all else. ``listing``: for ``pages``.

        Chats are answered by ``engine`` (``Engine(kind)`` unless told) where no script is set.
        """
        super().__init__()
        self.flavour: Flavour = flavour
        self.kind = kind or flavour
        self.engine = engine or Engine(self.kind)
        self.embeddings = Embeddings(self.kind)
        self.script: Script | None = script
        self.once: list[Script] = []
        self.pages = pages(self.kind, list(models) or ["m-oll" if flavour == "ollama" else "m-oai"], **listing)
        self.shelf = shelf.Shelf(self.pages)
        self.headers = headers or {}
        self.judge = judge
        self.requests: list[Recorded] = []
        self.others: list[Recorded] = []
        self.running = self.most_running = self.connected = 0
        self.connections: set[Connection] = set()
        self.port = port
        self._news = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self.connections):
            connection.transport.abort()

    async def received(self, count: int = 1, *, within_s: float = 10.0) -> Recorded:
        """Waits until so many chat requests have come; returns the last of these."""
        async with asyncio.timeout(within_s), self._news:
            await self._news.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def _serve(self, connection: Connection, request: Recorded) -> None:
        path, _, query = request.path.partition("?")
        if self.judge is not None and (said := self.judge(path, request)) is not None:
            await self._play(connection, request, said if isinstance(said, list) else [said])
            return
        if path in PATHS:
            await self._play(connection, request, self.embeddings.script(path, request))
            return
        if self.flavour == "ollama" and (path in shelf.PATHS or path.startswith(shelf.BLOBS)):
            await self._play(connection, request, self.shelf.answer(path, request))
            return
        if path not in CHATS:
            self.others.append(request)
            page = self._page(path, query, request)
            await self._play(connection, request, page if isinstance(page, list) else [page])
            return
        self.requests.append(request)
        async with self._news:
            self._news.notify_all()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            script = self.once.pop(0) if self.once else self.script
            if script is None:
                await self._play(connection, request, self.engine.script(request.body, path))
            else:
                await self._play(connection, request, script(request) if callable(script) else script)
        finally:
            self.running -= 1

    def _page(self, path: str, query: str, request: Recorded) -> Status | list[Piece]:
        match path:
            case "/_script":
                pieces = parse(request.json())
                if query == "always":
                    self.script = pieces
                else:
                    self.once.append(pieces)
                return Status()
            case "/_reset":
                self.requests.clear()
                self.others.clear()
                self.once.clear()
                self.script = None
                return Status()
            case "/_recorded":
                plain = ("at", "method", "path", "headers", "connection", "peer_closed_at", "answered_at")
                told = [{k: getattr(r, k) for k in plain} | {"body": r.body.decode()} for r in self.requests]
                return Status(200, {"requests": told, "running": self.running, "most_running": self.most_running})
        page = self.pages.get(path, Status(404, {"error": "not found"}))
        return page if isinstance(page, Status | list) else Status(200, page)

    def _head(self, code: int, content_type: str, length: int | None, more: dict[str, str]) -> bytes:
        framing = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
        headers = {"Content-Type": content_type, **framing, **self.headers, **more}
        return "".join([f"HTTP/1.1 {code} OK\r\n", *(f"{k}: {v}\r\n" for k, v in headers.items()), "\r\n"]).encode()

    async def _play(
        self, connection: Connection, request: Recorded, script: Iterable[Piece] | AsyncIterator[Piece]
    ) -> None:
        stream = self._head(200, "application/x-ndjson" if self.flavour == "ollama" else "text/event-stream", None, {})
        headed = False
        pieces = aiter(script) if isinstance(script, AsyncIterator) else _each(script)
        with contextlib.suppress(ConnectionError):
            async for piece in pieces:
                match piece:
                    case Sleep(0):
                        pass
                    case Sleep(seconds):
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(seconds):
                                await connection.closed.wait()
                    case Wait(event):
                        await event.wait()
                    case Status():
                        body = piece.encoded()
                        await connection.write(
                            self._head(piece.code, piece.content_type, len(body), piece.headers) + body
                        )
                        request.answered_at = time.monotonic()
                        connection.next()
                        return
                    case Word.HOLD:
                        await connection.closed.wait()
                    case Word.RST:
                        sock = connection.transport.get_extra_info("socket")
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        connection.transport.abort()
                        return
                    case Word.CUT | Word.FIN:
                        if piece is Word.FIN:
                            await connection.write((b"" if headed else stream) + b"0\r\n\r\n")
                        connection.transport.close()
                        return
                    case Word.HEAD:
                        await connection.write(stream)
                        headed = True
                    case _:
                        data = encode(self.flavour, piece)
                        await connection.write((b"" if headed else stream) + b"%x\r\n%b\r\n" % (len(data), data))
                        headed = True
            await connection.write((b"" if headed else stream) + b"0\r\n\r\n")
            request.answered_at = time.monotonic()
            connection.next()


async def _each(script: Iterable[Piece]) -> AsyncIterator[Piece]:
    for piece in script:
        yield piece


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--flavour", choices=("openai", "ollama"), default="openai")
    parser.add_argument("--kind", default="", help="whose lists and thinking switch: vllm, llamacpp, ollama, openai")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each piece of the engine's answer")
    parser.add_argument("--fixed", default=None, help="answer just this, whatever was asked")
    options = parser.parse_args()
    engine = Engine(options.kind or options.flavour, delay_s=options.delay, fixed=options.fixed)
    async with Scripted(
        options.flavour, kind=options.kind, models=options.model, engine=engine, port=options.port
    ) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
