"""The product's own gateway and worker parts, driven by the schedule: each call late, lost or run twice.

What runs is ``Inbox``, ``Follower``, ``Errands`` and ``ReplyWriter``; only their endless loops are done here, in
virtual time.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from buffer.access import Command, StoreUnavailable
from buffer.heard import Said
from buffer.inbox import WATCH_S, Inbox
from buffer.job import Content, End
from buffer.records import GivenBack
from buffer.replies import ReplyWriter
from tests.properties.ledger import Client
from tests.properties.schedule import Actor
from tests.properties.sending import MAX_ATTEMPTS, Attempt
from tests.properties.state import ask
from tests.properties.working import keep_reaping
from tests.properties.world import CANCELLED, World

if TYPE_CHECKING:
    from buffer.follower import Follower
    from tests.properties.working import Worker

ONCE = ("reap", "signal", "pull")
WORLDS = ("create_inbox", "watch", "submit")


class FarStore:
    def __init__(self, world: World, actor: Actor) -> None:
        self._world, self._actor = world, actor

    async def exchange(self, commands: list[Command]) -> list[Any]:
        run = self._world.lanes.store.exchange
        return await self._world.call(self._actor, lambda: run(commands), twice=False)

    def ring(self, *names: str) -> None:
        """Nobody sleeps here."""


class FarLanes:
    """``Lanes`` as one process reaches them."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world, self._actor = world, actor
        self.keys, self.store = world.lanes.keys, FarStore(world, actor)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._world if name in WORLDS else self._world.lanes, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def far(*args: Any, **kwargs: Any) -> Any:
            return await self._world.call(self._actor, lambda: method(*args, **kwargs), twice=name not in ONCE)

        return far


class VirtualLock:
    """In the place of an ``asyncio.Lock``: who waits for it sleeps in virtual time, like everybody."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world, self._actor, self._taken = world, actor, False

    async def __aenter__(self) -> None:
        while self._taken:
            await self._world.sleep(self._actor, 0.001, 0.01)
        self._taken = True

    async def __aexit__(self, *_: object) -> None:
        self._taken = False


@dataclass
class Served:
    client: Client
    follower: Follower


class ProductGateway(Actor):
    """Like ``serving.Gateway``, with the product's inbox in it."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(name)
        self.world = world
        self.box: Any = Inbox(FarLanes(world, self), name)  # type: ignore[arg-type]
        self.box._moving = VirtualLock(world, self)
        self.jobs: dict[str, Served] = {}
        self.served: set[str] = set()
        world.schedule.spawn(self, self._live)

    async def _live(self) -> None:
        while not self.box.name:
            try:
                await self.box.create()
            except StoreUnavailable:
                continue
        for loop in (self._read, self._watch, self._chores, self._give_out):
            self.world.schedule.spawn(self, loop)
        self.world.schedule.spawn(self, keep_reaping, self.world, self)

    async def serve(self, client: Client, limit: int) -> None:
        while not self.box.name or self.world.schedule.now_us < self.world.away_until_us:
            await self.world.sleep(self, 0.05)
        try:
            _, follower = await self.box.submit(client.job, limit=limit)
        except StoreUnavailable:
            self.world.finish(client, "unserved")
            return
        if follower is None:
            self.world.finish(client, "full")
        else:
            self.jobs[client.job.id] = Served(client, follower)

    async def leave(self, client: Client) -> None:
        if not client.over and client.job.id in self.jobs:
            client.left = True
            self.jobs.pop(client.job.id).follower.close()

    async def slow(self, client: Client, seconds: float) -> None:
        """The client reads nothing for so long."""
        if client.job.id in self.jobs:
            one = self.jobs.pop(client.job.id)
            await self.world.sleep(self, seconds)
            self.jobs[client.job.id] = one

    async def _read(self) -> None:
        world, name, last, seen = self.world, "", "0-0", -1
        while True:
            await world.sleep(self, 0.005, 0.03)
            if self.box.name != name:
                name, last, seen = self.box.name, "0-0", -1
            if seen == world.writes:
                continue
            seen, key = world.writes, world.lanes.keys.inbox(name)
            for _, entries in (await ask(world.lanes, [("XREAD", "COUNT", 20, "STREAMS", key, last)]))[0] or []:
                for entry_id, fields in entries:
                    last, seen = entry_id.decode(), -1
                    self.box._incoming._take(fields)
            await ask(world.lanes, [("XTRIM", key, "MINID", last)])

    async def _watch(self) -> None:
        while True:
            try:
                await self.box._watch()
            except StoreUnavailable:
                continue
            await self.world.sleep(self, WATCH_S * 0.8, WATCH_S)

    async def _chores(self) -> None:
        todo = self.box._errands._chores._todo
        while True:
            while todo:
                key, chore = todo.popitem(last=False)
                try:
                    await chore()
                except StoreUnavailable:
                    todo.setdefault(key, chore)
            await self.world.sleep(self, 0.002, 0.02)

    async def _give_out(self) -> None:
        """Each client reads when it likes."""
        while True:
            for one in list(self.jobs.values()):
                while one.follower._events or (one.follower.ended and one.client.job.id in self.jobs):
                    got = await one.follower.next()
                    if isinstance(got, End):
                        self.world.finish(one.client, got.kind)
                        one.follower.close()
                        self.jobs.pop(one.client.job.id, None)
                        break
                    self.world.deliver(one.client, "".join(event.text for event in got if isinstance(event, Content)))
            await self.world.sleep(self, 0.005, 0.2)


class ProductSending:
    """Like ``sending.Sending`` for all attempts of a worker, with the product's writer in it."""

    def __init__(self, world: World, worker: Worker) -> None:
        self.world, self.worker = world, worker
        self.writer: Any = ReplyWriter(
            FarLanes(world, worker),  # type: ignore[arg-type]
            lease_s=world.plan.lease_s,
            on_lost=self._lost,
        )
        world.schedule.spawn(worker, self._turns)

    def _lost(self, job_id: str) -> None:
        if job_id in self.worker.attempts:
            self.worker.attempts[job_id].over = True

    async def _turns(self) -> None:
        while True:
            await self.world.sleep(self.worker, 0.002, 0.02)
            if self.writer._wake.is_set():
                self.writer._wake.clear()
                try:
                    await self.writer._turn()
                except StoreUnavailable:
                    self.writer._wake.set()

    async def run(self, attempt: Attempt) -> None:
        """From the grant to its end."""
        world, job = self.world, attempt.job
        if attempt.before is not None:
            # The writer knows jobs, not attempts: as in the worker, one is out of its hands before the next is in.
            attempt.before.over = True
            while not attempt.before.away:
                await world.sleep(self.worker, 0.001, 0.01)
        self.writer.attach(job)
        written = 0
        while not attempt.over:
            more = [Content(piece) for piece in attempt.pieces[written:]]
            written += len(more)
            self.writer.write(job.id, list(more))
            self.writer.readdress(job.id, attempt.inbox)
            if attempt.closed and written == len(attempt.pieces):
                break
            await world.sleep(self.worker, 0.002, 0.02)
        if attempt.over:
            self.writer.drop(job.id)
        else:
            await self._end(attempt)
        attempt.over = attempt.away = True
        self.worker.wake.add(attempt.backend)

    async def _end(self, attempt: Attempt) -> None:
        job, text = attempt.job, attempt.prefix + "".join(attempt.pieces)
        resumable = self.world.ledger.clients[job.id].resumable
        if attempt.cancelled:
            ending = self.writer.finish(job.id, CANCELLED)
        elif attempt.finish == "done":
            ending = self.writer.finish(job.id, End("done"), real_tokens=len(attempt.pieces))
        elif attempt.finish == "error" and text and not resumable:
            ending = self.writer.finish(job.id, End("failed"))
        else:
            back = GivenBack(attempt.finish, Said(text), spent=1, max_attempts=MAX_ATTEMPTS)  # type: ignore[arg-type]
            ending = self.writer.release(job.id, back)
        task = asyncio.get_running_loop().create_task(ending)
        self.worker.loose.add(task)
        while not task.done() and not attempt.over:
            await self.world.sleep(self.worker, 0.002, 0.02)
        self.world.ledger.counts[f"product {attempt.finish}: {task.result() if task.done() else 'over'}"] += 1
