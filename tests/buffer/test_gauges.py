from __future__ import annotations

from buffer.gauges import read_gauges
from buffer.lanes import Lanes
from buffer.load import WorkerPresence, publish_worker
from buffer.store import open_store


async def test_a_worker_of_several_pools_is_one_worker() -> None:
    store = await open_store(None, prefix="gauges")
    try:
        pools = [Lanes(store, name) for name in ("a", "b")]
        for lanes in pools:
            await publish_worker(store, lanes.keys, WorkerPresence(id="w", started_at=0.0, backends=[]), 60)
        await publish_worker(store, pools[0].keys, WorkerPresence(id="v", started_at=0.0, backends=[]), 60)
        assert (await read_gauges(pools)).workers == 2
    finally:
        await store.aclose()
