"""Idle workers with standing orders, each with a store of its own as processes have."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from buffer.store import Store, StoreUnavailable, open_store
from tests.rig.scripted import Scripted
from tests.worker.rig import Crew, Gate, gate, settings, spec, working
from worker.pool import Pool


class Site:
    """A gateway, and workers that each have a store of their own, as processes do."""

    def __init__(self, door: Gate, crew: Crew, stores: list[Store], engine: Scripted) -> None:
        self.door, self.crew, self.stores, self.engine = door, crew, stores, engine
        self.pulls: list[str] = []
        for one in crew.workers:
            for pool in one.pools:
                self._count(pool)

    def _count(self, pool: Pool) -> None:
        lanes: Any = pool.lanes
        pull = lanes.pull

        async def counted(*args: Any, **more: Any) -> Any:
            self.pulls.append(pool.worker)
            return await pull(*args, **more)

        lanes.pull = counted

    def pool(self, number: int = 0) -> Pool:
        return self.crew.workers[number].pools[0]

    async def serves(self, marker: str = "x", **more: Any) -> None:
        """One client asks, is answered, and leaves."""
        ask = await self.door.ask(f"marker:{marker} words:1", **more)
        assert (await ask.end()).kind == "done"
        assert ask.text == f"{marker} 1"
        ask.follower.close()

    async def serves_again(self, marker: str = "x", within_s: float = 20.0) -> None:
        """It may refuse for a moment."""
        async with asyncio.timeout(within_s):
            while True:
                try:
                    await self.serves(marker)
                    return
                except StoreUnavailable:
                    await asyncio.sleep(0.02)

    async def stand(self, *numbers: int, within_s: float = 5.0) -> None:
        """Returns when those workers (all, if none is named) have orders in the store, and have pulled since."""
        await until(lambda: self._ready(numbers or range(len(self.crew.workers))), within_s)

    async def _ready(self, numbers: Iterable[int]) -> bool:
        for number in numbers:
            for pool in self.crew.workers[number].pools:
                if not pool.takers:
                    continue  # for embeddings
                key = pool.lanes.keys.orders(pool.worker)
                if await pool.lanes.store.exchange([("EXISTS", key)]) != [1]:
                    return False
                if not pool.standing or not pool.connected.is_set():
                    return False
                if not all(engine.quiet or engine.running for engine in pool.engines):
                    return False
        return True


async def until(holds: Callable[[], Awaitable[bool]], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not await holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def site(url: str, crew: int = 1, worker_url: str = "", **config: Any) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        prefix = f"t{secrets.token_hex(4)}"
        stores = [await open_store(worker_url or url, prefix=prefix) for _ in range(crew)]
        store = await open_store(url, prefix=prefix)
        for one in (*stores, store):
            stack.push_async_callback(one.aclose)
        engine = await stack.enter_async_context(Scripted("openai"))
        door = await stack.enter_async_context(gate(store, watch_s=0.2))
        changes = settings(**config)
        it = await stack.enter_async_context(
            working(store, spec(engine, max_in_flight=2), crew=crew, stores=stores, config=changes)
        )
        yield Site(door, it, stores, engine)
