"""What nobody of ours ever wrote, among what we wrote: it is counted and put away, and holds up no request."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
import redis.asyncio

from tests.cases.rig import OAI, Bench, run_bench, settings
from tests.cases.scripts import plain

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

BASE = "doublebuffer:{default}:"
LANES = ("thinking", "fast", "normal", "slow", "background")
VALUES: tuple[dict[str, str], ...] = (
    {"garbage": "1"},
    {"id": "not-json", "model": "not-json", "user": "not-json", "cost": "not-json"},
    {"id": "{}", "model": "{}", "user": "{}", "cost": "{}"},
)
EVERY_S = 0.25
SLOWER_S = 0.2

Poison = Callable[[redis.asyncio.Redis], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(more=settings(lease_seconds="2")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def store(bench: Bench) -> AsyncIterator[redis.asyncio.Redis]:
    """The Redis itself, past us."""
    async with redis.asyncio.Redis(port=bench.site.redis.port) as found:
        yield found


async def _requests(bench: Bench, for_s: float) -> float:
    """Normal requests, one after another. All are answered; seconds that the one in the middle took."""
    bench.oai.script = plain
    took = []
    until = asyncio.get_running_loop().time() + for_s
    while asyncio.get_running_loop().time() < until:
        reply = await bench.chat("openai", OAI)
        assert reply.content == "ok"
        took.append(reply.took_s)
        await asyncio.sleep(EVERY_S)
    return statistics.median(took)


async def _holds(bench: Bench, store: redis.asyncio.Redis, poison: Poison, *, for_s: float, letters: int) -> None:
    """Requests that come while there is poison are as quick as others, and it ends as so many dead letters."""
    pids = [process.pid for process in (bench.site.gateway, *bench.site.workers)]
    usual_s = await _requests(bench, 1.5)
    before = await bench.counted("doublebuffer_dead_letter_total"), await store.xlen(f"{BASE}dead")
    await poison(store)
    assert await _requests(bench, for_s) < usual_s + SLOWER_S
    async with asyncio.timeout(30):
        while await store.xlen(f"{BASE}dead") - before[1] < letters:
            await asyncio.sleep(0.05)
    assert await store.xlen(f"{BASE}dead") - before[1] == letters
    assert [process.pid for process in (bench.site.gateway, *bench.site.workers) if process.exit_code is None] == pids


async def entries(store: redis.asyncio.Redis) -> None:
    for lane in LANES:
        for value in VALUES:
            await store.xadd(f"{BASE}jobs:{lane}", value)


@pytest.mark.parametrize("for_s", [4.0, pytest.param(30.0, marks=pytest.mark.slow)])
async def test_entries_of_the_lanes(bench: Bench, store: redis.asyncio.Redis, for_s: float) -> None:
    await _holds(bench, store, entries, for_s=for_s, letters=len(LANES) * len(VALUES))


async def streams(store: redis.asyncio.Redis) -> None:
    """Those that gateway and workers read: their inboxes, what they are told, and the bell."""
    for pattern in ("inbox:*", "ctl:*", "bell"):
        async for key in store.scan_iter(match=f"{BASE}{pattern}"):
            for value in ({"garbage": "1"}, {"p": "not-json"}, {"id": "{}", "f": "x", "n": "y", "k": "ev", "d": "["}):
                await store.xadd(key, value)


async def test_frames_and_commands(bench: Bench, store: redis.asyncio.Redis) -> None:
    await _holds(bench, store, streams, for_s=3, letters=0)


async def orders(store: redis.asyncio.Redis) -> None:
    for name in (f"wait:{OAI}:fast", f"turn:{OAI}:fast", f"due:{OAI}", "lease", "models", f"fair:{OAI}:fast"):
        await store.zadd(BASE + name, {"garbage": 0, "{}": 1e15, "": 2})
    await store.hset(f"{BASE}load:fb1", "garbage", "not,a,share")


async def test_members_of_the_orders(bench: Bench, store: redis.asyncio.Redis) -> None:
    await _holds(bench, store, orders, for_s=3, letters=0)
    await store.zrem(f"{BASE}models", "garbage", "{}", "")


async def types(store: redis.asyncio.Redis) -> None:
    """Text in place of everything that is there by one of our fixed names."""
    for name in ("lease", "bell", "models", "jobs:fast", f"load:{'fb1'}", "backends"):
        await store.set(BASE + name, "garbage")


async def test_keys_of_another_type(bench: Bench, store: redis.asyncio.Redis) -> None:
    await _holds(bench, store, types, for_s=6, letters=6)
    errors = [line for process in (bench.site.gateway, *bench.site.workers) for line in _errors(process.log)]
    assert errors
    assert len(errors) <= 12
    assert all("met what Doublebuffer never wrote" in line for line in errors)


def _errors(log: str) -> list[str]:
    return [line for line in log.splitlines() if " ERROR " in line and "frame" not in line]


async def test_a_job_whose_body_is_none(bench: Bench, store: redis.asyncio.Redis) -> None:
    """Its client is told; nobody asks an engine, and nobody tries again."""
    bench.oai.script = plain
    for worker in bench.site.workers:
        worker.freeze()
    # Else it would go to one of them at once.
    await store.delete(f"{BASE}standing")
    asked = asyncio.create_task(bench.chat("openai", OAI))
    try:
        async with asyncio.timeout(5):
            while not (
                keys := [key async for key in store.scan_iter(match=f"{BASE}job:*") if await _waits(store, key)]
            ):
                await asyncio.sleep(0.01)
        await store.hset(keys[0], "body", "not-json")
    finally:
        for worker in bench.site.workers:
            worker.thaw()
    reply = await asked
    assert reply.status == 500
    assert reply.json()["error"]["code"] == "unreadable_job"
    assert bench.oai.requests == []
    assert await bench.chat("openai", OAI)


async def _waits(store: redis.asyncio.Redis, key: bytes) -> bool:
    return bool(await store.hget(key, "st") == b"waiting")
