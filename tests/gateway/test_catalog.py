"""What the gateway knows of models: kept fresh while requests come, and left alone while none do."""

from __future__ import annotations

import asyncio

import pytest

from buffer.backend import ModelInfo
from buffer.inbox import Inbox
from buffer.lanes import Lanes
from buffer.load import BackendState, WorkerPresence, publish_state, publish_worker
from buffer.store import open_store
from gateway import catalog as module
from gateway.catalog import Catalog
from gateway.models import Models
from gateway.pools import Pool


class Counted(Catalog):
    """Counts how often it asks the store."""

    asked = 0

    async def _ask(self) -> Models:
        self.asked += 1
        return await super()._ask()


async def test_it_is_kept_fresh_while_requests_come_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_AHEAD_S", 0.02)
    monkeypatch.setattr(module, "_ATTENTIVE_S", 0.3)
    store = await open_store(None)
    lanes = Lanes(store)
    state = BackendState(name="b", kind="vllm", up=True, models=[ModelInfo("m")])
    await publish_state(store, lanes.keys, state, 10)
    await publish_worker(store, lanes.keys, WorkerPresence(id="w", started_at=0.0), 10)
    catalog = Counted(store, {"default": Pool("default", lanes, Inbox(lanes, "gate"))}, cold_s=1e-6)
    running = asyncio.create_task(catalog.run())
    await asyncio.sleep(0.1)
    assert catalog.asked == 0
    assert await catalog.resolve("m") is not None
    first = catalog.asked
    async with asyncio.timeout(5):
        while catalog.asked < first + 3:
            await asyncio.sleep(0.01)
        # Nobody asks for anything any more.
        while True:
            before = catalog.asked
            await asyncio.sleep(0.2)
            if catalog.asked == before:
                break
    running.cancel()
    await store.aclose()
