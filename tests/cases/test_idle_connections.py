"""Nothing happens for a while: connections that wait are neither cut nor made anew, and the next request is as quick as
any.

Six seconds are more than the five after which redis-py, left to itself, cuts a read that waits. By hand, and with the
oldest redis-py that we allow as well, it was a minute: ``DOUBLEBUFFER_TEST_IDLE_S=60``.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import redis.asyncio

from tests.cases.rig import OAI, Bench, run_bench
from tests.cases.scripts import plain

IDLE_S = float(os.environ.get("DOUBLEBUFFER_TEST_IDLE_S", "6"))
TIMES = 3
SLOWER_S = 0.3

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(60 + 8 * IDLE_S)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def store(bench: Bench) -> AsyncIterator[redis.asyncio.Redis]:
    """The Redis itself, past us."""
    async with redis.asyncio.Redis(port=bench.site.redis.port) as found:
        yield found
        await found.config_set("timeout", 0)


async def _asked(bench: Bench) -> float:
    bench.oai.script = plain
    reply = await bench.chat("openai", OAI)
    assert reply.content == "ok"
    return reply.took_s


async def _under_load(bench: Bench) -> float:
    """What a request takes while others are on their way."""
    return statistics.median(await asyncio.gather(*(_asked(bench) for _ in range(24))))


async def _connections(store: redis.asyncio.Redis) -> set[str]:
    own = await store.client_id()
    return {one["id"] for one in await store.client_list() if one["id"] != str(own)}


def _logs(bench: Bench) -> list[str]:
    lines = [line for one in (bench.site.gateway, *bench.site.workers) for line in one.log.splitlines()]
    return [line for line in lines if " WARNING " in line or " ERROR " in line]


@pytest.mark.slow
async def test_idle_connections_stay(bench: Bench, store: redis.asyncio.Redis) -> None:
    usual_s = await _under_load(bench)
    for _ in range(TIMES):
        before = await _connections(store)
        await asyncio.sleep(IDLE_S)
        assert before <= await _connections(store)
        assert await _asked(bench) < usual_s + SLOWER_S
    assert _logs(bench) == []


@pytest.mark.slow
async def test_idle_connections_that_the_server_cuts(bench: Bench, store: redis.asyncio.Redis) -> None:
    """Those that wait for an answer it leaves alone; the others are opened again."""
    usual_s = await _under_load(bench)
    await store.config_set("timeout", max(1, int(IDLE_S / 3)))
    waiting = {one["id"] for one in await store.client_list() if one["cmd"] == "xread"}
    await asyncio.sleep(IDLE_S)
    assert waiting <= await _connections(store)
    assert await _asked(bench) < usual_s + SLOWER_S
    assert _logs(bench) == []


async def test_connections_that_somebody_kills(bench: Bench, store: redis.asyncio.Redis) -> None:
    """All of them, idle or not. Nobody is refused."""
    usual_s = await _under_load(bench)
    before = await _connections(store)
    for _ in range(5):
        await store.client_kill_filter(_type="normal")
        assert await _asked(bench) < usual_s + SLOWER_S
    async with asyncio.timeout(10):
        while len(await _connections(store)) > len(before):
            await asyncio.sleep(0.05)


async def test_a_request_in_the_first_moment_after_the_last(bench: Bench, store: redis.asyncio.Redis) -> None:
    """A server that cuts every connection which is idle for a second."""
    usual_s = await _under_load(bench)
    await store.config_set("timeout", 1)
    for pause_s in (0.9, 1.0, 1.1, 2.0):
        await asyncio.sleep(pause_s)
        assert await _asked(bench) < usual_s + SLOWER_S
    assert [line for line in _logs(bench) if " ERROR " in line] == []
