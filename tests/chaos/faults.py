"""Does what the plan says, each fault at its time, and writes down when it was done."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import aiohttp

from tests.chaos.children import Child, Redis
from tests.chaos.leftovers import lasting_keys
from tests.chaos.schedule import Fault

ENGINE_S = 60.0
"""How long a killed engine may take to be up again before the next fault reaches it."""


@dataclass
class Faults:
    workers: Sequence[Child]
    gateways: Sequence[Child]
    engines: Sequence[Child]
    backends: Sequence[Sequence[str]]
    """Addresses of each engine process's back ends."""
    redis: Redis
    trace: Path
    done: Counter[str] = field(default_factory=Counter)
    lasting: list[str] = field(default_factory=list)
    """Keys without a lifetime that stood in a Redis which was then emptied."""

    async def run(self, plan: Sequence[Fault]) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in plan:
                await asyncio.sleep(max(0.0, began + fault.at_s - time.monotonic()))
                group.create_task(self._do(fault))

    async def _do(self, fault: Fault) -> None:
        await self._another_is_up(fault)
        at = time.time()
        match fault.kind:
            case "worker killed":
                await self.workers[fault.target].down(signal.SIGKILL, fault.for_s)
            case "worker told to stop":
                await self.workers[fault.target].down(signal.SIGTERM, fault.for_s)
            case "gateway killed":
                await self.gateways[fault.target].down(signal.SIGKILL, fault.for_s)
            case "worker frozen":
                await self.workers[fault.target].freeze(fault.for_s)
            case "gateway frozen":
                await self.gateways[fault.target].freeze(fault.for_s)
            case "engine killed":
                await self.engines[fault.target].down(signal.SIGKILL, fault.for_s)
            case "redis killed, AOF":
                await self.redis.restart(signal.SIGKILL, fault.for_s, empty=False)
            case "redis told to stop, AOF":
                await self.redis.restart(signal.SIGTERM, fault.for_s, empty=False)
            case "redis restarted empty":
                self.lasting += await lasting_keys(self.redis.port)
                await self.redis.restart(signal.SIGKILL, fault.for_s, empty=True)
            case "redis frozen":
                await self.redis.freeze(fault.for_s)
            case _:
                await self._engine(fault)
        self.done[fault.kind] += 1
        with self.trace.open("a", encoding="utf-8") as trace:
            told = {"began_at": round(at, 3), "ended_at": round(time.time(), 3), **asdict(fault)}
            trace.write(json.dumps(told) + "\n")

    async def _another_is_up(self, fault: Fault) -> None:
        """On a machine that is busy, a process takes longer to start than the plan thinks: the last one is spared."""
        part = fault.kind.split()[0]
        group = {"worker": self.workers, "gateway": self.gateways, "engine": self.engines}.get(part, ())
        others = [child for i, child in enumerate(group) if i != fault.target]
        while others and not any(child.up for child in others):
            await asyncio.sleep(0.1)

    async def _engine(self, fault: Fault) -> None:
        """Of one of the process's back ends; a stall is one of all."""
        urls = self.backends[fault.target]
        if fault.kind != "engine stalled":
            urls = [urls[int(fault.at_s * 1000) % len(urls)]]
        order = {"kind": fault.kind, "how": fault.how, "for_s": fault.for_s}
        async with aiohttp.ClientSession() as session, asyncio.timeout(ENGINE_S):
            for url in urls:
                while not await _ordered(session, url, order):
                    await asyncio.sleep(0.1)


async def _ordered(session: aiohttp.ClientSession, url: str, order: dict[str, object]) -> bool:
    """False: the engine is down, or was killed while it was told."""
    try:
        async with session.post(f"{url}/_fault", data=json.dumps(order)) as response:
            response.raise_for_status()
    except (aiohttp.ClientConnectionError, ConnectionError):
        return False
    return True
