"""What Redis knows now, for whoever asks for metrics."""

from __future__ import annotations

from collections.abc import Iterable

from buffer.gauge_metrics import BackendGauges, Gauges
from buffer.job import LANES
from buffer.lanes import Lanes
from buffer.load import read_states, read_workers


async def read_gauges(pools: Iterable[Lanes], embedding_pools: Iterable[Lanes] = ()) -> Gauges:
    """The gauges of all ``pools`` together; requests for embeddings, which have no lane, wait under ``none``.

    Raises ``StoreUnavailable``.
    """
    depth: dict[str, int] = dict.fromkeys(LANES, 0)
    oldest_s: dict[str, float] = dict.fromkeys(LANES, 0.0)
    backends: dict[str, BackendGauges] = {}
    workers: set[str] = set()
    for lanes in pools:
        for lane, found in (await lanes.depths()).items():
            depth[lane] += found.waiting
            oldest_s[lane] = max(oldest_s[lane], found.oldest_wait_us / 1e6)
        for state in await read_states(lanes.store, lanes.keys):
            load = await lanes.load(state.name)
            # Of a spare that is not wanted nobody is to be told that it is down.
            up = None if state.comes else state.up
            backends[state.name] = BackendGauges(load.jobs, state.limit, up, state.breaker_open)
        # One that serves several pools tells each of them.
        workers.update(worker.id for worker in await read_workers(lanes.store, lanes.keys))
    for lanes in embedding_pools:
        for found in (await lanes.depths()).values():
            depth["none"] = depth.get("none", 0) + found.waiting
            oldest_s["none"] = max(oldest_s.get("none", 0.0), found.oldest_wait_us / 1e6)
    return Gauges(depth, oldest_s, backends, len(workers))
