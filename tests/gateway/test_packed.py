"""What an engine's answer was packed in is between it and us."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from buffer.backend import BackendSpec, Kind
from buffer.settings import Settings
from buffer.store import open_store
from gateway.app import create_app
from tests.gateway.packed_engine import Packed
from tests.gateway.rig import MODEL, Wire, chunks, lines, ollama, served
from worker.runner import Worker

CHATS = ["/api/chat", "/v1/chat/completions"]


@asynccontextmanager
async def packed_house(kind: Kind) -> AsyncIterator[tuple[Packed, int]]:
    async with AsyncExitStack() as stack:
        engine = Packed(kind, MODEL)
        port = await stack.enter_async_context(served(engine))
        spec = BackendSpec(name="e", kind=kind, url=f"http://127.0.0.1:{port}")
        store = await open_store(None, prefix=f"t-{secrets.token_hex(6)}")
        stack.push_async_callback(store.aclose)
        settings = Settings(backends=[spec], max_attempts=1)
        stop = asyncio.Event()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(Worker(settings, store).run(stop))
        stack.callback(stop.set)
        yield engine, await stack.enter_async_context(served(create_app(settings, store)))


@pytest.mark.parametrize("kind", ["ollama", "vllm"])
@pytest.mark.parametrize("accepts", ["identity", "gzip, deflate", "br", ""])
async def test_clients_get_the_plain_words(kind: Kind, accepts: str) -> None:
    headers = {"Accept-Encoding": accepts}
    async with packed_house(kind) as (engine, port), httpx.AsyncClient(timeout=20, headers=headers) as client:
        url = f"http://127.0.0.1:{port}"
        engine.go.set()
        for path in ("/api/tags", "/v1/models", "/api/version"):
            _check(await client.get(url + path))
        for path in CHATS:
            whole = await client.post(url + path, json=ollama(stream=False))
            _check(whole)
            assert "onetwo" in whole.text
            stream = await client.post(url + path, json=ollama(stream=True))
            _check(stream)
            (lines if path == "/api/chat" else chunks)(stream.text)
        engine.refuses = True
        for path in CHATS:
            refused = await client.post(url + path, json=ollama(stream=False))
            _check(refused)
            assert refused.status_code == 400
            assert "too long" in refused.text


@pytest.mark.parametrize("kind", ["ollama", "vllm"])
@pytest.mark.parametrize("path", CHATS)
async def test_streams_are_not_kept_back(kind: Kind, path: str) -> None:
    async with packed_house(kind) as (engine, port):
        wire = await Wire.post(port, path, ollama(stream=True), "Accept-Encoding: gzip, br")
        await wire.until(b'"one"')
        engine.go.set()
        await wire.until(b'"two"')
        await wire.leave()


def _check(got: httpx.Response) -> None:
    assert "content-encoding" not in got.headers
    if "content-length" in got.headers:
        assert "transfer-encoding" not in got.headers
        assert got.headers["content-length"] == str(len(got.content))
