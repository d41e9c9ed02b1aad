"""What waits, and what is there but not asked for, costs a pull nothing."""

from __future__ import annotations

import time

from buffer.job import End
from buffer.lanes import Lanes
from buffer.store import open_store
from tests.buffer.jobs import INBOX, job, pull, ready


async def cost_s(lanes: Lanes, models: list[str]) -> float:
    """Of a pull that brings a job; the best of some, since a machine may be busy."""
    best = 1.0
    for _ in range(8):
        began = time.perf_counter()
        (granted,) = (await pull(lanes, models=models)).jobs
        best = min(best, time.perf_counter() - began)
        await lanes.settle(granted.id, granted.fence, 1, End("failed"))
    return best


async def test_the_users_who_wait_cost_nothing() -> None:
    lanes = Lanes(await open_store(None))
    await ready(lanes)
    for i in range(20):
        await lanes.submit(job(f"few{i}", user=f"few{i}"))
    few_s = await cost_s(lanes, ["m"])
    for i in range(3500):
        if i % 100 == 0:
            # As a gateway does: on a slow machine this takes longer than an inbox lives unwatched.
            await lanes.watch(INBOX, [])
        await lanes.submit(job(f"many{i}", user=f"many{i}"))
    assert await cost_s(lanes, ["m"]) < 3 * few_s
    await lanes.store.aclose()


async def test_models_that_nobody_asks_for_cost_nothing() -> None:
    lanes = Lanes(await open_store(None))
    await ready(lanes)
    for i in range(20):
        await lanes.submit(job(f"j{i}"))
    one_s = await cost_s(lanes, ["m"])
    assert await cost_s(lanes, ["m", *(f"m{i}" for i in range(200))]) < 4 * one_s
    await lanes.store.aclose()
