"""A whole installation as real processes: a Redis of its own, a gateway, workers, and engines behind them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
import redis.asyncio

from tests.rig.engine import Engine
from tests.rig.processes import START_S, Process, run_command
from tests.rig.redis_server import run_redis
from tests.rig.scripted import Scripted

FIXED_PREFIXES = ("jobs:", "wait:", "turn:", "due:", "load:")
FIXED_NAMES = {"lease", "backends", "bell", "dead", "models"}
"""Keys that may be without a lifetime: their names are a fixed set, and they empty themselves."""


class Servers(Protocol):
    """What holds the store: one Redis, or several."""

    @property
    def url(self) -> str: ...

    @property
    def ports(self) -> list[int]:
        """Those that hold its keys now."""
        ...


@dataclass
class Site:
    gateway: Process
    workers: list[Process]
    redis: Any
    """``RedisServer``, unless the site was started on another ``Servers``."""
    engines: dict[str, Scripted]
    environment: dict[str, str] = field(default_factory=dict)
    """Of its processes, for more of them."""

    @property
    def url(self) -> str:
        return self.gateway.url

    async def leftovers(self, *, within_s: float = 10.0) -> list[str]:
        """What is left of jobs that have all ended: waits until nothing is, or tells what there still is."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        # By the clock: redis-py on Python 3.11 may lose the cancellation that a timeout's end amounts to.
        while (left := await self._left()) and loop.time() < until:
            await asyncio.sleep(0.05)
        return left

    async def _left(self) -> list[str]:
        left = []
        for port in self.redis.ports:
            async with redis.asyncio.Redis(port=port) as client:
                left += await _left(client)
        return left

    async def metrics(self) -> dict[str, float]:
        """The gateway's samples by name and labels."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as client:
            text = (await client.get("/metrics")).text
        rows = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}

    async def is_at(self, jobs: int, *, within_s: float = 20.0) -> None:
        """Waits until so many jobs run or wait."""
        names = ("doublebuffer_in_flight{", "doublebuffer_queue_depth")
        async with asyncio.timeout(within_s):
            while sum(v for k, v in (await self.metrics()).items() if k.startswith(names)) < jobs:
                await asyncio.sleep(0.05)

    def complaints(self) -> list[str]:
        """Lines of the logs that no healthy process writes."""
        words = ("error", "traceback", "exception", "never retrieved", "warning")
        processes = [self.gateway, *self.workers]
        return [line for p in processes for line in p.log.splitlines() if any(word in line.lower() for word in words)]


async def _left(client: Any) -> list[str]:
    """Open jobs, leases, load, and keys that will never go away."""
    found = []
    async for key in client.scan_iter(count=1000):
        name = key.decode().partition("}:")[2]
        kind = (await client.type(key)).decode()
        fixed = name in FIXED_NAMES or name.startswith(FIXED_PREFIXES)
        if await client.ttl(key) == -1 and not fixed:
            found.append(f"{name} has no lifetime")
        if name.startswith("jobs:") and await client.xlen(key):
            found.append(f"{name} holds open jobs")
        if name.startswith(("wait:", "turn:", "due:", "lease")) and kind == "zset":
            found.append(f"{name} is not empty")
        if name.startswith("load:") and await client.hlen(key):
            found.append(f"{name} carries jobs")
    return found


def backend(name: str, kind: str, url: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "url": url, **more}


@contextlib.asynccontextmanager
async def run_site(
    backends: Sequence[Mapping[str, Any]],
    *,
    workers: int = 2,
    settings: Mapping[str, str] | None = None,
    engines: Mapping[str, Scripted] | None = None,
    key: str = "",
    store: Servers | None = None,
) -> AsyncIterator[Site]:
    """Gateway and workers, ready to answer; on a Redis of their own, or on a ``store`` that is running. ``key``: one
    that the settings ask for.
    """
    async with contextlib.AsyncExitStack() as stack:
        server = store or stack.enter_context(run_redis())
        environment = {"REDIS_URL": server.url, "DOUBLEBUFFER_BACKENDS": json.dumps(list(backends))}
        environment |= dict(settings or {})
        running = [
            await stack.enter_async_context(run_command("worker", environment=environment)) for _ in range(workers)
        ]
        gateway = await stack.enter_async_context(run_command("gateway", "--port", "0", environment=environment))
        await gateway.is_healthy("/health/ready")
        site = Site(gateway, running, server, dict(engines or {}), environment)
        await _lists(site.url, {spec["name"] for spec in backends}, key)
        yield site


async def _lists(url: str, names: Iterable[str], key: str) -> None:
    """Waits until every back end has been seen up."""
    wanted = {f'doublebuffer_backend_up{{backend="{name}"}} 1.0' for name in names}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client, asyncio.timeout(START_S):
        while not wanted <= set((await client.get("/metrics")).text.splitlines()):
            await asyncio.sleep(0.05)


KINDS = ("vllm", "llamacpp", "openai", "ollama")


@contextlib.asynccontextmanager
async def run_engines(
    *, delay_s: float = 0.0, kinds: Sequence[str] = KINDS, slots: int = 8
) -> AsyncIterator[dict[str, Scripted]]:
    """One scripted engine of each kind, each with a model ``m-<kind>``."""
    async with contextlib.AsyncExitStack() as stack:
        made = {}
        for kind in kinds:
            engine = Scripted(
                "ollama" if kind == "ollama" else "openai",
                kind=kind,
                models=[f"m-{kind}"],
                engine=Engine(kind, delay_s=delay_s),
                slots=slots,
            )
            made[kind] = await stack.enter_async_context(engine)
        yield made


def backends_of(engines: Mapping[str, Scripted], **more: Any) -> list[dict[str, Any]]:
    return [backend(f"e-{kind}", kind, engine.url, **more) for kind, engine in engines.items()]


def cpu_s(pid: int) -> float:
    """Processor time that a process has used, in seconds."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
