"""A server whose memory is full: what frees it, and what goes on, is carried out all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from buffer.job import End
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import ids_in, length, state, swept
from tests.buffer.jobs import LEASE_S, MANY, chunk, ids, job, running


@asynccontextmanager
async def full(lanes: Lanes) -> AsyncIterator[None]:
    """The embedded store is never full."""
    if lanes.store.embedded:
        yield
        return
    await lanes.store.redis.config_set("maxmemory", "1")
    try:
        yield
    finally:
        await lanes.store.redis.config_set("maxmemory", "0")


@guard("pull", "if call('SISMEMBER', P .. 'backends', backend) == 0 then", "if true then", servers_only=True)
async def test_jobs_start(lanes: Lanes) -> None:
    await swept(lanes)
    await running(lanes, "first")
    await lanes.submit(job("a"))
    async with full(lanes):
        assert await ids(lanes) == ["a"]


@guard("reap", "call('EXPIRE', P .. 'swept', 86400)\n", "", servers_only=True)
async def test_jobs_of_the_dead_are_taken_over(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    async with full(lanes):
        for _ in range(5):
            clock.forward(LEASE_S / 4)
            await lanes.reap(LEASE_S)
    assert await state(lanes) == "held"


@guard("_press", "call('DEL', P .. 'none')", "", servers_only=True)
async def test_answers_go_on(lanes: Lanes) -> None:
    granted = await running(lanes)
    async with full(lanes):
        assert await lanes.append([chunk(granted, 1, "a")]) == [1]
        assert await lanes.settle("a", granted.fence, 2, End("done")) == "ok"


@guard("_press", "call('DEL', P .. 'none')", "", servers_only=True)
async def test_workers_hear_of_a_cancel(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.renew("w", [], LEASE_S)
    async with full(lanes):
        assert await lanes.cancel("a") == "running"
    assert await length(lanes, "ctl:w") == 2


@guard("pull", "      out(j)\n", "", servers_only=True)
async def test_who_waited_too_long_is_told(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes, "first")
    await lanes.submit(job("a", timeout_us=1_000_000))
    clock.forward(2)
    async with full(lanes):
        assert await ids(lanes) == []
    assert await state(lanes) == "done"


@guard("stand", "call('ZREMRANGEBYSCORE', standing, '-inf', int(now))\n", "", servers_only=True)
async def test_workers_stand_ready(lanes: Lanes) -> None:
    async with full(lanes):
        await lanes.stand("w", "b", ["m"], limits=MANY, lease_s=LEASE_S)
    assert await ids_in(lanes, "standing") == ["w"]
