"""A store that was away: its gateways see to their jobs as soon as it is back, whether anything comes or not."""

from __future__ import annotations

import asyncio

from buffer.incoming import Incoming
from buffer.lanes import Lanes
from buffer.store import open_store
from tests.rig.redis_server import run_redis

SOON_S = 2.5
"""Well below the time after which a gateway looks after its jobs in any case."""


async def test_a_gateway_hears_at_once_of_a_store_that_came_back_empty() -> None:
    with run_redis() as server:
        store = await open_store(server.url)
        lanes = Lanes(store)
        await lanes.create_inbox("gate:1")
        back = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            incoming = Incoming(lanes, {}, lambda _: None)
            reading = group.create_task(incoming.read("gate:1", back.set))
            async with asyncio.timeout(10):
                while not (await store.redis.info("clients"))["blocked_clients"]:
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            async with asyncio.timeout(SOON_S):
                await back.wait()
            reading.cancel()
        await store.aclose()
