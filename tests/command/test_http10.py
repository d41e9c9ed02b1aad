"""The server as the commands run it, spoken to in HTTP/1.0."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from buffer.settings import Settings
from doublebuffer.serving import bind, serve
from gateway.app import create_app
from tests.gateway.rig import MODEL, free_store


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[int]:
    listener = bind("127.0.0.1", 0)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(serve(app, listener, stop, drain_s=1))
        try:
            yield listener.getsockname()[1]
        finally:
            stop.set()
            await running


async def said(port: int, request: bytes) -> tuple[list[str], bytes]:
    """The answer's head and body, up to the connection's end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode().lower().split("\r\n"), body


async def test_streams_are_sent_plainly_and_end_with_the_connection() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await go.wait()
        await send({"type": "http.response.body", "body": b"twotwo", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(3) == b"one"
            go.set()
            assert await reader.read() == b"twotwo"
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head
        writer.close()
        head_11, body = await said(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert "transfer-encoding: chunked" in head_11
        assert body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("request_line", ["GET /api/version", "HEAD /api/version", "GET /nothing", "POST /api/chat"])
async def test_whole_answers_are_as_ever(request_line: str) -> None:
    store = await free_store()
    body = json.dumps({"model": MODEL, "messages": []}).encode() if "POST" in request_line else b""
    async with serving(create_app(Settings(), store)) as port:
        request = f"{request_line} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        head, told = await said(port, request)
        length = next(line for line in head if line.startswith("content-length"))
        assert told == b"" if "HEAD" in request_line else length == f"content-length: {len(told)}"
        assert "connection: close" in head
        assert not any(line.startswith("transfer-encoding") for line in head)
    await store.aclose()
