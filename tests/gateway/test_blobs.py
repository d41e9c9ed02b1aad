"""Files on their way to an Ollama back end, of any size and a piece at a time."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from tests.gateway.management_rig import keepers
from tests.gateway.rig import served
from tests.rig.shelf import DIGEST


async def test_there_or_not() -> None:
    async with keepers("one") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        data = b"y" * 10
        path = f"/api/blobs/sha256:{hashlib.sha256(data).hexdigest()}"
        assert (await client.head(path)).status_code == 404
        assert (await client.post(path, content=data)).status_code == 201
        assert (await client.head(path)).status_code == 200
        assert (await client.post(path, content=data)).status_code == 200
        got = await client.post(f"/api/blobs/{DIGEST}", content=data)
        assert (got.status_code, got.json()) == (400, {"error": "digest mismatch"})


@pytest.mark.parametrize("digest", ["x", "sha256:..", "sha256:" + "g" * 64, "sha256:%2e%2e%2fchat"])
async def test_what_is_no_digest(digest: str) -> None:
    async with keepers("one") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        assert (await client.post(f"/api/blobs/{digest}", content=b"x")).status_code in {400, 404}
        assert not k.shelf("one").requests


async def test_one_larger_than_bodies_may_be_goes_through_piece_by_piece() -> None:
    """The client sends on only after the back end has what came before."""
    came: asyncio.Queue[bytes] = asyncio.Queue()

    async def store(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        more = scope["method"] == "POST"
        while more:
            message = await receive()
            more = message.get("more_body", False)
            await came.put(message.get("body", b""))
        body = json.dumps({"models": []}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def upload() -> AsyncIterator[bytes]:
        for i in range(8):
            piece = bytes([i]) * 100_000
            yield piece
            seen = b""
            while len(seen) < len(piece):
                seen += await came.get()
            assert seen == piece

    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(served(store))
        k = await stack.enter_async_context(keepers(urls={"raw": f"http://127.0.0.1:{port}"}, max_body_bytes=1000))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=k.url, timeout=20))
        async with asyncio.timeout(10):
            assert (await client.post(f"/api/blobs/{DIGEST}", content=upload())).status_code == 200


async def test_a_client_that_leaves_amid_one() -> None:
    async with keepers("one") as k:
        reader, writer = await asyncio.open_connection("127.0.0.1", k.port)
        head = f"POST /api/blobs/{DIGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
        writer.write(head.encode() + b"x" * 200_000)
        await writer.drain()
        await k.connected("one")
        writer.close()
        async with asyncio.timeout(5):
            await k.left("one")
        assert not k.shelf("one").requests
        del reader


async def test_a_file_that_stops_coming_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upload.PATIENCE_S", 0.2)
    async with keepers("one") as k:
        port = int(k.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST /api/blobs/{DIGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc".encode())
        async with asyncio.timeout(5):
            assert b" 408 " in await reader.readline()
        writer.close()
        assert k.shelf("one").blobs == {}
