"""Virtual time: coroutines that only the schedule wakes, one at a time, in an order that its seed decides."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from typing import Any


class Actor:
    """A process of the installation: all that it runs stops together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: set[asyncio.Task[None]] = set()
        self.loose: set[asyncio.Future[Any]] = set()
        """Tasks of the product that wait for what the schedule drives."""
        self.paused_until_us = 0
        self.dead = False


class Schedule:
    """Between two wake-ups everything stands still, so whoever is awake may look at the store as at one instant."""

    def __init__(self, start_us: int) -> None:
        self.now_us = start_us
        self.actors: dict[Actor, None] = {}
        self._heap: list[tuple[int, int, Actor, asyncio.Future[None]]] = []
        self._serial = 0
        self._awake = 0
        self._still = asyncio.Event()
        self._failure: BaseException | None = None

    def spawn(self, actor: Actor, run: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Begins ``run(*args)`` as part of ``actor``, at this instant but after who is awake now."""
        if actor.dead:
            return
        self.actors[actor] = None
        start = self._at(self.now_us, actor)

        async def life() -> None:
            await start
            await run(*args)

        task = asyncio.get_running_loop().create_task(life())
        actor.tasks.add(task)
        task.add_done_callback(lambda done: self._ended(actor, done))

    async def sleep(self, actor: Actor, seconds: float) -> None:
        future = self._at(self.now_us + max(0, int(seconds * 1_000_000)), actor)
        self._asleep()
        await future

    def pause(self, actor: Actor, seconds: float) -> None:
        """Nothing of the actor wakes for so long. What it has sent may have arrived or not."""
        actor.paused_until_us = max(actor.paused_until_us, self.now_us + int(seconds * 1_000_000))

    async def crash(self, actor: Actor) -> None:
        """Ends an actor, wherever it stands. Not for the one who calls."""
        actor.dead = True
        tasks = [task for task in actor.tasks if not task.done()]
        for task in tasks:
            self._awake += 1
            task.cancel()
        for loose in actor.loose:
            loose.cancel()
        await asyncio.gather(*tasks, *actor.loose, return_exceptions=True)

    async def run(self, over: Callable[[], bool], until_us: int) -> bool:
        """Wakes one after the other until ``over()``; False: it was not by ``until_us``.

        Raises what an actor raised.
        """
        while self._heap and not over():
            at, _, actor, future = heapq.heappop(self._heap)
            if future.done() or actor.dead:
                continue
            if actor.paused_until_us > at:
                self._push(actor.paused_until_us, actor, future)
                continue
            if at > until_us:
                self._push(at, actor, future)
                return False
            self.now_us = max(self.now_us, at)
            self._awake += 1
            self._still.clear()
            future.set_result(None)
            await self._still.wait()
            if self._failure is not None:
                raise self._failure
        return over()

    def _at(self, at_us: int, actor: Actor) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._push(at_us, actor, future)
        return future

    def _push(self, at_us: int, actor: Actor, future: asyncio.Future[None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (at_us, self._serial, actor, future))

    def _asleep(self) -> None:
        self._awake -= 1
        if self._awake == 0:
            self._still.set()

    def _ended(self, actor: Actor, task: asyncio.Task[None]) -> None:
        actor.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
        self._asleep()
