"""A gateway, a worker and a simulated engine that answers one request at a time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from buffer.backend import BackendSpec
from buffer.lanes import Lanes
from buffer.settings import Settings
from buffer.store import open_store
from buffer.telemetry import Telemetry
from gateway.app import create_app
from tests.gateway.rig import served
from tests.simulate.serving import served as simulated
from worker.runner import Worker

MODEL = "simulated-qwen3:14b"


@dataclass
class Place:
    client: httpx.AsyncClient
    telemetry: Telemetry
    lanes: Lanes
    settings: Settings

    async def ask(self, text: str, tokens: int = 64, **more: Any) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": tokens}
        return await self.client.post("/v1/chat/completions", json=body | {"ignore_eos": True}, **more)

    @asynccontextmanager
    async def another(self) -> AsyncIterator[Place]:
        """The same, through a gateway that has only just been started."""
        telemetry = Telemetry()
        async with (
            served(create_app(self.settings, self.lanes.store, telemetry=telemetry)) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
        ):
            yield Place(client, telemetry, self.lanes, self.settings)

    def metric(self, line: str) -> float:
        found = [text for text in self.telemetry.exposition(None).decode().splitlines() if text.startswith(line + " ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0


@asynccontextmanager
async def one_place(scale: float, **settings: Any) -> AsyncIterator[Place]:
    """The simulated engine, one job at a time. ``scale``: wall seconds for a modelled second."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(simulated("rtx4090-vllm", time_scale=scale, ignore_eos=True))
        spec = BackendSpec(name="sim", kind="vllm", url=url, max_in_flight=1)
        store = await open_store(None, prefix=f"t-{secrets.token_hex(6)}")
        stack.push_async_callback(store.aclose)
        telemetry, stop = Telemetry(), asyncio.Event()
        made = Settings(backends=[spec], **settings)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(Worker(made, store, telemetry=telemetry).run(stop))
        stack.callback(stop.set)
        port = await stack.enter_async_context(served(create_app(made, store, telemetry=telemetry)))
        client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30)
        yield Place(await stack.enter_async_context(client), telemetry, Lanes(store), made)
