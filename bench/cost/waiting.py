"""Whether what waits makes anything dearer: ten waiting jobs, then ten thousand, one engine's place, the same measures.

The engine takes 20 ms an answer, so that jobs go and come all the time while nearly all of them wait.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Mapping

from redis.asyncio import Redis

from bench.cost.load import Ask, put
from bench.cost.paths import Path, ours
from bench.cost.processes import Site, memory_bytes
from bench.cost.rows import quantile
from bench.processes import BenchError

FEW, MANY = 10, 10_000
LOOK_S = 4.0
FILL_S = 300.0
METRICS = 20
SLOW_US = 5
"""Scripts take longer."""
ENV = {
    "DOUBLEBUFFER_QUEUE_TIMEOUT_SECONDS": "3600",
    "DOUBLEBUFFER_REFUSE_WAIT_SECONDS": "86400",
}
SCRIPTS = ("pull", "submit")


async def waiting(site: Site, engine: int, scripts: Mapping[str, str]) -> dict[str, float]:
    """``scripts``: SHA-1 → name of the store's scripts. Times in µs and ms, memory in bytes a client; each with the
    number of waiting jobs behind its name.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MANY + 1000 and hard != resource.RLIM_INFINITY:
        raise BenchError(f"{MANY} clients need as many open files, and this process may have {hard}.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * MANY) if hard > 0 else 4 * MANY, hard))
    path = await ours(site, engine, slots=1, env=ENV)
    found: dict[str, float] = {}
    before = memory_bytes(path.gateways)
    for count in (FEW, MANY):
        ask = Ask(count + 1, False, 1, first_us=20_000, for_s=3600.0, spread_s=count / 1000)
        async with asyncio.TaskGroup() as group, Redis(port=path.store) as redis:
            load = group.create_task(put(path.port, ask))
            await _until_waiting(redis, count)
            found |= {f"{name}_{count}": value for name, value in (await _look(path, redis, scripts)).items()}
            found[f"memory_{count}"] = (memory_bytes(path.gateways) - before) / count
            load.cancel()
        await asyncio.sleep(1.0)
    return found


async def _until_waiting(redis: Redis, count: int) -> None:
    """Raises ``BenchError``."""
    try:
        async with asyncio.timeout(FILL_S):
            while True:
                if await _waiting(redis) >= count * 0.95:
                    return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise BenchError(f"{count} jobs did not come to wait within {FILL_S:g} s.") from None


async def _waiting(redis: Redis) -> int:
    counts: list[int] = [await redis.zcard(name) for name in await redis.keys("*}:due:*")]
    return sum(counts)


async def _look(path: Path, redis: Redis, scripts: Mapping[str, str]) -> dict[str, float]:
    await redis.config_set("slowlog-max-len", 100_000)
    await redis.config_set("slowlog-log-slower-than", SLOW_US)
    await redis.slowlog_reset()
    took_s: list[float] = []
    until_at = time.perf_counter() + LOOK_S
    while time.perf_counter() < until_at or len(took_s) < METRICS:
        took_s.append(await _metrics(path.port))
        await asyncio.sleep(LOOK_S / METRICS / 2)
    entries = await redis.slowlog_get(100_000)
    await redis.config_set("slowlog-log-slower-than", -1)
    took_us: dict[str, list[float]] = {name: [] for name in SCRIPTS}
    for entry in entries:
        name, _, rest = entry["command"].partition(b" ")
        script = scripts.get(rest.partition(b" ")[0].decode()) if name == b"EVALSHA" else None
        if script in took_us:
            took_us[script].append(float(entry["duration"]))
    return {f"{name}_us": quantile(each, 0.5) for name, each in took_us.items()} | {
        "metrics_ms": 1e3 * quantile(took_s, 0.5)
    }


async def _metrics(port: int) -> float:
    began_at = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        answer = await reader.read(-1)
    finally:
        writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise BenchError("/metrics did not answer.")
    return time.perf_counter() - began_at
