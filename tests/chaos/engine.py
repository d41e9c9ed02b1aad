"""Engines that count: a process with several back ends of both flavours, which fail when they are told to.

``python -m tests.chaos.engine --attempts FILE NAME:KIND:PORT …``. Each streams the tokens of ``text.Task``, goes on
from a trailing assistant message, and writes a line for each attempt's beginning, first word and end into FILE, so
that what a killed process did can be read as well. ``POST /_fault`` makes it fail, ``GET /_busy`` tells for whom it
works.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.text import Task, asked
from tests.rig.connection import Connection, Recorded, Server
from tests.rig.engine import pages, texts
from tests.rig.script import DONE, Flavour, Status, chunk, done, encode, line, role, usage

CHATS = ("/v1/chat/completions", "/api/chat")
HTML = Status(502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html")


@dataclass(eq=False, slots=True)
class Attempt:
    task: Task
    backend: str
    said: str
    """What it goes on from."""
    sent: int = 0
    """Pieces of the answer."""
    doom: str = ""
    """How it is to break, at its next piece."""
    number: int = field(default_factory=iter(range(1 << 62)).__next__)


class Backend(Server):
    """One engine of one kind on one port."""

    def __init__(self, name: str, kind: str, log: int, *, delay_s: float) -> None:
        super().__init__()
        self.name = name
        self.flavour: Flavour = "ollama" if kind == "ollama" else "openai"
        self.pages = pages(kind, [f"m-{kind}"])
        self.connections: set[Connection] = set()
        self.connected = 0
        self.running: set[Attempt] = set()
        self.most = 0
        self.burst, self.burst_until = "", 0.0
        self.stall_until = 0.0
        self._log = log
        self._delay_s = delay_s

    async def _serve(self, connection: Connection, request: Recorded) -> None:
        path = request.path.partition("?")[0]
        if path == "/_busy":
            busy = [attempt.task.marker for attempt in self.running]
            await _whole(connection, Status(200, {"busy": busy, "most": self.most}))
        elif path == "/_fault":
            self._fail(**request.json())
            await _whole(connection, Status())
        elif path not in CHATS:
            page = self.pages.get(path, Status(404, {"error": "not found"}))
            await _whole(connection, page if isinstance(page, Status) else Status(200, page))
        elif self.burst_until > time.monotonic():
            error = {"error": {"message": "out of order"} if self.flavour == "openai" else "out of order"}
            await _whole(connection, HTML if self.burst == "html" else Status(int(self.burst), error))
        else:
            await self._chat(connection, request.json())

    def _fail(self, kind: str, how: str = "", for_s: float = 0.0) -> None:
        now = time.monotonic()
        match kind:
            case "engine streams broken":
                for attempt in self.running:
                    attempt.doom = how
            case "engine stalled":
                self.stall_until = now + for_s
            case "engine answers 5xx":
                self.burst, self.burst_until = how, now + for_s
            case _:
                raise ValueError(kind)

    async def _chat(self, connection: Connection, body: dict[str, Any]) -> None:
        last = body["messages"][-1]
        said = texts({"messages": [last]}) if last["role"] == "assistant" else ""
        attempt = Attempt(asked(texts(body)), self.name, said)
        self.running.add(attempt)
        self.most = max(self.most, len(self.running))
        rest = attempt.task.rest(said)
        self._tell(attempt, "began", said=len(said), misled=rest is None, most=_most(body))
        how = "left"
        try:
            how = await self._stream(connection, attempt, body, rest or [])
        finally:
            self.running.discard(attempt)
            self._tell(attempt, how, sent=attempt.sent)

    async def _stream(self, connection: Connection, attempt: Attempt, body: dict[str, Any], rest: list[str]) -> str:
        ollama = self.flavour == "ollama"
        kind = "application/x-ndjson" if ollama else "text/event-stream"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        try:
            async for piece in self._pieces(attempt, body, rest):
                while self.stall_until > time.monotonic():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.stall_until - time.monotonic()):
                            await connection.closed.wait()
                            return "stalled"
                if attempt.doom:
                    return await self._break(connection, attempt)
                data = encode(self.flavour, piece)
                await connection.write(head + b"%x\r\n%b\r\n" % (len(data), data))
                head = b""
            await connection.write(head + b"0\r\n\r\n")
        except ConnectionError:
            return "left"
        connection.next()
        return "done"

    async def _break(self, connection: Connection, attempt: Attempt) -> str:
        if attempt.doom == "error":
            told = {"error": {"message": "CUDA error: unspecified"} if self.flavour == "openai" else "CUDA error"}
            data = encode(self.flavour, told)
            await connection.write(b"%x\r\n%b\r\n" % (len(data), data) if attempt.sent else b"")
        if attempt.doom in ("error", "clean") and attempt.sent:
            await connection.write(b"0\r\n\r\n")
        if attempt.doom == "rst":
            linger = struct.pack("ii", 1, 0)
            connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.transport.abort()
        else:
            connection.transport.close()
        return attempt.doom

    async def _pieces(
        self, attempt: Attempt, body: dict[str, Any], rest: list[str]
    ) -> AsyncIterator[bytes | dict[str, Any]]:
        """Sent at the engine's pace: a wait before each."""
        ollama, task = self.flavour == "ollama", attempt.task
        kwargs = body.get("chat_template_kwargs") or {}
        thinks = body.get("think") is not False if ollama else kwargs.get("enable_thinking", True)
        thoughts = task.thinking() if thinks and not attempt.said else []
        most = _most(body)
        words = rest if most is None else rest[: task.room(most) if thoughts else most]
        reason = "stop" if len(words) == len(rest) else "length"
        if not ollama:
            yield role()
        for thought in thoughts:
            await asyncio.sleep(self._delay_s)
            yield line(thinking=thought) if ollama else chunk({"reasoning": thought})
            self._sent(attempt)
        for word in words:
            await asyncio.sleep(self._delay_s)
            yield line(word) if ollama else chunk({"content": word})
            self._sent(attempt)
        counts = (len(texts(body).split()), len(thoughts) + len(words))
        if ollama:
            yield done(reason, prompt=counts[0], completion=counts[1])
            return
        yield chunk({}, reason)
        yield usage(*counts)
        yield DONE

    def _sent(self, attempt: Attempt) -> None:
        attempt.sent += 1
        if attempt.sent == 1:
            self._tell(attempt, "first")

    def _tell(self, attempt: Attempt, what: str, **more: Any) -> None:
        told = {"at": time.time(), "marker": attempt.task.marker, "backend": self.name, "process": os.getpid()}
        told |= {"attempt": attempt.number, "what": what, **more}
        os.write(self._log, json.dumps(told).encode() + b"\n")


def _most(body: dict[str, Any]) -> int | None:
    """Tokens that the answer may have."""
    most: int | None = body.get("max_tokens", (body.get("options") or {}).get("num_predict"))
    return most


async def _whole(connection: Connection, answer: Status) -> None:
    body = answer.encoded()
    head = f"HTTP/1.1 {answer.code} X\r\nContent-Type: {answer.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    with contextlib.suppress(ConnectionError):
        await connection.write(head.encode() + body)
        connection.next()


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", required=True)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("backends", nargs="+")
    options = parser.parse_args()
    log = os.open(options.attempts, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    loop = asyncio.get_running_loop()
    for spec in options.backends:
        name, kind, port = spec.split(":")
        backend = Backend(name, kind, log, delay_s=options.delay)
        await loop.create_server(lambda b=backend: Connection(b), "127.0.0.1", int(port), backlog=1024)  # type: ignore[misc]
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_main())
