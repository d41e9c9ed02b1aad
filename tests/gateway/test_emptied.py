"""A store that came back empty is told of one back end before another: nobody takes the other's models for unknown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from buffer.inbox import Inbox
from buffer.lanes import Lanes
from buffer.load import BackendState, ModelInfo, WorkerPresence, publish_state, publish_worker
from buffer.store import open_store
from gateway.catalog import Catalog
from gateway.pools import Pool


@dataclass
class Told:
    lanes: Lanes
    catalog: Catalog

    async def worker(self) -> None:
        await publish_worker(self.lanes.store, self.lanes.keys, WorkerPresence(id="w", started_at=0.0), 60)

    async def backend(self, name: str) -> None:
        state = BackendState(name=name, kind="vllm", up=True, models=[ModelInfo(f"m-{name}")])
        await publish_state(self.lanes.store, self.lanes.keys, state, 60)


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    store = await open_store(None)
    lanes = Lanes(store)
    pools = {"default": Pool("default", lanes, Inbox(lanes, "gate"))}
    told = Told(lanes, Catalog(store, pools, {"a", "b"}, cold_s=1e-6))
    await told.worker()
    await told.backend("a")
    await told.backend("b")
    yield told
    await store.aclose()


async def test_a_model_is_waited_for_that_is_not_told_of_again_yet(told: Told) -> None:
    assert await told.catalog.resolve("m-b") is not None
    await told.lanes.store.redis.flushall()
    await told.worker()
    await told.backend("a")
    await told.catalog.read(0)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(told.catalog.resolve("m-b"))
        listed = group.create_task(told.catalog.list())
        assert await told.catalog.resolve("m-a") is not None
        await asyncio.sleep(0.3)
        assert not asked.done()
        await told.backend("b")
        async with asyncio.timeout(1):
            model = await asked
            assert model is not None
            assert model.name == "m-b"
            assert {state.name for state in (await listed).states} == {"a", "b"}


async def test_a_model_that_is_none_is_unknown_at_once(told: Told) -> None:
    async with asyncio.timeout(0.5):
        assert await told.catalog.resolve("m-b") is not None
        assert await told.catalog.resolve("nobody") is None
