"""Pulls of models that a batch worker carries out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from buffer.pulls import Pulls
from buffer.store import open_store
from tests.rig.processes import Process, run_command
from tests.rig.redis_server import RedisServer, run_redis
from tests.rig.script import Wait
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.slow
PULL = {"model": "new:1b"}


@dataclass
class Here:
    engine: Scripted
    gateway: Process
    batch_worker: Process
    redis: RedisServer

    async def offered(self) -> None:
        """Waits until it is known that somebody pulls."""
        async with asyncio.timeout(20):
            store = await open_store(self.redis.url)
            while not await Pulls(store).offered("o"):
                await asyncio.sleep(0.05)
            await store.aclose()

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.gateway.url, timeout=30, trust_env=False)


@asynccontextmanager
async def installation() -> AsyncIterator[Here]:
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(run_redis())
        engine = await stack.enter_async_context(Scripted("ollama", models=["qwen3:0.6b"]))
        backends = json.dumps([{"name": "o", "kind": "ollama", "url": engine.url}])
        environment = {"REDIS_URL": redis.url, "DOUBLEBUFFER_BACKENDS": backends}
        gateway = await stack.enter_async_context(run_command("gateway", "--port", "0", environment=environment))
        await stack.enter_async_context(run_command("worker", environment=environment))
        batch_worker = await stack.enter_async_context(run_command("batch-worker", environment=environment))
        await batch_worker.has_said("batch worker")
        await gateway.is_healthy("/health/ready")
        yield Here(engine, gateway, batch_worker, redis)


async def told(client: httpx.AsyncClient, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await client.post("/api/pull", json=body)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_a_pull_outlives_its_client_and_all_see_the_same() -> None:
    go = asyncio.Event()
    async with installation() as here, here.client() as client:
        await here.offered()
        here.engine.shelf.held = [Wait(go)]
        async with client.stream("POST", "/api/pull", json=PULL) as first:
            async for line in first.aiter_lines():
                if '"completed":40' in line:
                    break
        async with asyncio.TaskGroup() as group:
            second = group.create_task(told(client, PULL))
            whole = group.create_task(client.post("/api/pull", json=PULL | {"stream": False}))
            await asyncio.sleep(0.5)
            go.set()
        statuses = [line["status"] for line in second.result()]
        assert (statuses[0], statuses[-1]) == ("pulling manifest", "success")
        assert (whole.result().status_code, whole.result().json()) == (200, {"status": "success"})
        assert len(here.engine.shelf.requests) == 1
        assert "new:1b" in {model["name"] for model in (await client.get("/api/tags")).json()["models"]}

        refused = await told(client, {"model": "no-such"})
        assert refused[-1] == {"error": "pull model manifest: file does not exist"}
        failed = await client.post("/api/pull", json={"model": "no-such", "stream": False})
        assert (failed.status_code, failed.json()["error"]) == (502, "pull model manifest: file does not exist")
        assert await here.batch_worker.stop() == 0
