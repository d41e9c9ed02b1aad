"""Gateways and workers: the product's own, each with its store at a distance."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from buffer.access import StoreUnavailable
from buffer.follower import Follower
from buffer.heard import Said
from buffer.inbox import Inbox
from buffer.job import Content, End, Reasoning, Usage
from buffer.lanes import Lanes
from buffer.listening import Listening
from buffer.settings import Settings
from buffer.telemetry import Telemetry
from tests.properties.calls import watch_pulls
from tests.properties.engines import Engine
from tests.properties.far import Far
from tests.properties.ledger import Client
from tests.properties.world import World
from worker.runner import Worker


class Process:
    """Its tasks end together."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.far = Far(world, name)
        self.store = self.far.store()
        self.tasks: dict[asyncio.Task[None], None] = {}

    def begin(self, what: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(what)
        self.tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.fail(error)

    async def crash(self) -> None:
        """At once, wherever it stands; nothing is said to anybody."""
        self.far.dead = True
        self.far.hang_up()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class GatewayProcess(Process):
    def __init__(self, world: World, name: str, lease_s: float) -> None:
        super().__init__(world, name)
        self.lanes = Lanes(self.store)
        self.inbox = Inbox(self.lanes, name, lease_s=lease_s)
        self.followers: dict[str, Follower] = {}
        self.served: list[Client] = []
        self.listening = Listening()
        for loop in (self._live(), self._reap(lease_s), self.listening.run()):
            self.begin(loop)

    async def _reap(self, lease_s: float) -> None:
        while True:
            with suppress(StoreUnavailable):
                reaped = await self.lanes.reap(lease_s)
                self.world.ledger.counts["taken over"] += reaped.taken_over
            await asyncio.sleep(lease_s / 4)

    async def _live(self) -> None:
        while not self.inbox.name:
            try:
                await self.inbox.create()
            except StoreUnavailable:
                await asyncio.sleep(0.1)
        await self.inbox.run()

    def serve(self, client: Client, limit: int, after_s: float = 0.0) -> None:
        self.world.ledger.clients[client.job.id] = client
        self.served.append(client)
        self.begin(self._serve(client, limit, after_s))

    async def _serve(self, client: Client, limit: int, after_s: float) -> None:
        ledger, id = self.world.ledger, client.job.id
        await asyncio.sleep(after_s)
        while not self.inbox.name:
            await asyncio.sleep(0.05)
        try:
            submitted, follower = await self.inbox.submit(client.job, limit=limit, whole=client.whole, chat=client.chat)
        except StoreUnavailable:
            ledger.finish(id, "unserved")
            if self.world.faulty:
                self.serve(client.again(), limit, self.world.rng.uniform(0.5, 4.0))
            return
        if follower is None:
            ledger.finish(id, submitted.status)
            return
        client.submitted = True
        self.followers[id] = follower
        if not client.left:
            await self._read(client, follower)
        self.followers.pop(id, None)
        follower.close()

    async def _read(self, client: Client, follower: Follower) -> None:
        """Each client reads when it likes, until it leaves."""
        ledger, rng, id = self.world.ledger, self.world.rng, client.job.id
        while True:
            got = await follower.next()
            await self.far.awake()
            if client.left:
                return
            if isinstance(got, End):
                code = got.failure.code if got.failure is not None else ""
                ledger.finish(id, got.kind, code)
                return
            for event in got:
                if isinstance(event, Content | Reasoning):
                    ledger.deliver(id, event.text, thought=isinstance(event, Reasoning))
                elif isinstance(event, Usage):
                    client.usage.append(event)
            if rng.random() < 0.1:
                await asyncio.sleep(rng.uniform(0.0, 1.0))

    async def read_again(self, client: Client, seconds: float) -> None:
        """A client that came back reads on from where it was, for so long at most."""
        ledger, id = self.world.ledger, client.job.id
        listener = self.listening.open(self.lanes, id, after=client.last_id)
        assert listener is not None
        try:
            async with asyncio.timeout(seconds):
                if not await listener.found():
                    # The store does not know any more what it had read: from the start.
                    client.second, client.last_id = Said(), ""
                    return
                while not isinstance(got := await listener.pieces(), End):
                    for item in got:
                        if isinstance(item.event, Content | Reasoning):
                            ledger.deliver_again(id, item.event.text, thought=isinstance(item.event, Reasoning))
                        client.last_id = item.id or client.last_id
                ledger.finish_again(id, got.kind, got.failure.code if got.failure is not None else "")
        except TimeoutError:
            ledger.counts["left again"] += 1
        finally:
            listener.close()

    def leave(self, client: Client) -> None:
        """The client hangs up."""
        follower = self.followers.get(client.job.id)
        if not client.over and follower is not None:
            client.left = True
            self.world.ledger.counts["left"] += 1
            self.followers.pop(client.job.id)
            follower.close()


class WorkerProcess(Process):
    def __init__(self, world: World, name: str, engines: Sequence[Engine], settings: Settings) -> None:
        super().__init__(world, name)
        self.stop = asyncio.Event()
        for engine in engines:
            engine.far = self.far
        worker = Worker(settings, self.store, backends=list(engines), telemetry=Telemetry(), name=name)
        del worker.pools[1:]  # embeddings take other ways
        for pool in worker.pools:
            watch_pulls(pool.lanes)
            for served in pool.engines:
                served.clock = asyncio.get_running_loop().time
        self.worker = worker
        self.running = self.begin(worker.run(self.stop))
        self.running.add_done_callback(lambda _: self.far.hang_up())

    @property
    def stopped(self) -> bool:
        return self.running.done()
