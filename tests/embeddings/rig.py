"""Gateway, store, workers and scripted back ends in one process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from buffer.backend import BackendSpec, Kind
from buffer.embed import pool_of
from buffer.lanes import Lanes
from buffer.settings import Settings
from buffer.store import Store, open_store
from buffer.telemetry import Telemetry
from gateway.app import create_app
from tests.gateway.rig import served, until
from tests.rig.scripted import Scripted
from worker.runner import Worker

KINDS: list[Kind] = ["vllm", "llamacpp", "openai", "ollama"]
MODEL = "nomic-embed-text"


@dataclass
class House:
    url: str
    port: int
    client: httpx.AsyncClient
    engines: list[Scripted]
    store: Store
    chats: Lanes
    lanes: Lanes
    """Of the embeddings."""
    telemetry: Telemetry
    workers: list[asyncio.Task[None]]
    stops: list[asyncio.Event]
    """One for each worker: it is to stop."""

    @property
    def engine(self) -> Scripted:
        return self.engines[0]

    async def embed(self, input: Any, path: str = "/api/embed", **more: Any) -> httpx.Response:
        name = "prompt" if path == "/api/embeddings" else "input"
        return await self.client.post(path, json={"model": MODEL, name: input, **more})

    async def post_chat(self, content: str) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}]}
        return await self.client.post("/v1/chat/completions", json=body)

    async def waiting(self, count: int) -> None:
        """Waits until so many requests for embeddings wait."""

        async def so_many() -> bool:
            return (await self.lanes.depths())["normal"].waiting == count

        await until(so_many)

    async def quiet(self) -> None:
        """Waits until nothing is left of any job but tombstones, and no vector."""

        async def nothing() -> bool:
            for lanes in (self.chats, self.lanes):
                for key in await lanes.leftovers():
                    name = key.key.removeprefix(lanes.keys.base)
                    fixed = name in ("backends", "bell", "dead") or name.startswith("jobs:")
                    if key.ttl_s < 0 and not fixed:
                        return False
                    if name.startswith("jobs:") and await self.store.redis.xlen(key.key):
                        return False
                    if lanes is self.lanes and name.startswith("reply:") and await self._holds_events(key.key):
                        return False
            return True

        await until(nothing)

    async def _holds_events(self, reply: str) -> bool:
        return any(fields[b"k"] == b"ev" for _, fields in await self.store.redis.xrange(reply))

    def metric(self, line: str) -> float:
        for text in self.telemetry.exposition(None).decode().splitlines():
            if text.startswith(f"doublebuffer_{line} "):
                return float(text.rpartition(" ")[2])
        return 0.0

    async def kill(self, number: int = 0) -> None:
        """Ends a worker at once, as a crash would."""
        self.workers[number].cancel()
        await asyncio.wait([self.workers[number]])


@asynccontextmanager
async def house(*kinds: Kind, crew: int = 1, url: str | None = None, **settings: Any) -> AsyncIterator[House]:
    """One scripted back end of each kind, all with the same model. ``url``: of a Redis; the embedded store unless
    given."""
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(
                Scripted("ollama" if kind == "ollama" else "openai", kind=kind, models=[MODEL])
            )
            for kind in kinds
        ]
        specs = [
            BackendSpec(name=f"{kind}{place}", kind=kind, url=engine.url)
            for place, (kind, engine) in enumerate(zip(kinds, engines, strict=True))
        ]
        yield await stack.enter_async_context(_built(specs, engines, crew=crew, url=url, **settings))


@asynccontextmanager
async def house_at(kind: Kind, engine_url: str, **settings: Any) -> AsyncIterator[House]:
    """In front of an engine that is there already."""
    async with _built([BackendSpec(name="real", kind=kind, url=engine_url)], [], **settings) as it:
        yield it


@asynccontextmanager
async def _built(
    specs: Sequence[BackendSpec], engines: list[Scripted], *, crew: int = 1, url: str | None = None, **settings: Any
) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        prefix = f"t-{secrets.token_hex(6)}"
        store = await open_store(url, prefix=prefix)
        stack.push_async_callback(store.aclose)
        telemetry = Telemetry()
        made = Settings(backends=list(specs), **settings)
        homes: Sequence[Store] = [store]
        if url is not None:
            homes = [await open_store(url, prefix=prefix) for _ in range(crew)]
            for home in homes:
                stack.push_async_callback(home.aclose)
        stops = [asyncio.Event() for _ in range(crew)]
        workers = [
            asyncio.create_task(Worker(made, homes[n % len(homes)], telemetry=telemetry).run(stop))
            for n, stop in enumerate(stops)
        ]
        stack.push_async_callback(_ended, stops, workers)
        port = await stack.enter_async_context(served(create_app(made, store, telemetry=telemetry)))
        address = f"http://127.0.0.1:{port}"
        limits = httpx.Limits(max_connections=None)
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=address, timeout=60, trust_env=False, limits=limits)
        )
        lanes = Lanes(store, pool_of("default"))
        yield House(address, port, client, engines, store, Lanes(store), lanes, telemetry, workers, stops)


async def _ended(stops: Sequence[asyncio.Event], workers: Sequence[asyncio.Task[None]]) -> None:
    for stop in stops:
        stop.set()
    for result in await asyncio.gather(*workers, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
