"""A worker: pulls, renews, generates, reaps, hears what it is told. Its words leave it by ``sending``."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from buffer.access import StoreUnavailable
from buffer.records import Granted, Held
from tests.properties.schedule import Actor
from tests.properties.sending import Attempt, Sending
from tests.properties.state import ask
from tests.properties.text import REPLY, fold, unsnapped, word, words
from tests.properties.world import World

if TYPE_CHECKING:
    from tests.properties.far import ProductSending

BLOCK_S = 30.0


class Worker(Actor):
    def __init__(self, world: World, name: str, backends: list[str]) -> None:
        super().__init__(name)
        self.world, self.backends = world, backends
        self.attempts: dict[str, Attempt] = {}
        self.wake: set[str] = set()
        """Back ends whose credit was freed here: pull at once."""
        self.draining = self.drained = False
        self.heard = "0-0"
        self.product: ProductSending | None = None
        """How words go out, if not by ``Sending``."""
        for backend in backends:
            world.schedule.spawn(self, self._pull, backend)
        for loop in (self._renew, self._listen):
            world.schedule.spawn(self, loop)
        world.schedule.spawn(self, keep_reaping, world, self)

    async def _renew(self) -> None:
        world, lease_s = self.world, self.world.plan.lease_s
        while True:
            await world.sleep(self, 0.0, world.rng.choice((0.0, 0.0, 0.8)))
            held = [one for one in self.attempts.values() if not one.over]
            try:
                jobs = [Held(one.job.id, one.job.fence, one.backend) for one in held]
                results = await world.call(self, lambda jobs=jobs: world.renew(self.name, jobs))
            except StoreUnavailable:
                await world.sleep(self, 0.05, 0.2)
                continue
            for one, renewed in zip(held, results, strict=True):
                one.renewed(renewed, world.schedule.now_us, lease_s)
            await world.sleep(self, lease_s / 4 * 0.8, lease_s / 4)

    async def _listen(self) -> None:
        world = self.world
        key, seen = world.lanes.keys.ctl(self.name), -1
        while True:
            await world.sleep(self, 0.05, 0.3)
            if seen == world.writes:
                continue
            seen = world.writes
            for _, entries in (await ask(world.lanes, [("XREAD", "STREAMS", key, self.heard)]))[0] or []:
                for entry_id, fields in entries:
                    self.heard = entry_id.decode()
                    one = self.attempts.get(fields.get(b"id", b"").decode())
                    if one is not None and one.job.fence == int(fields[b"f"]):
                        one.told(fields[b"k"].decode())

    async def _pull(self, backend: str) -> None:
        world, models = self.world, self.world.plan.backends[backend]
        while True:
            while self.draining:
                await world.sleep(self, 1.0)
            want = world.rng.randint(1, 4)
            self.wake.discard(backend)
            try:
                run = lambda want=want: world.pull(self.name, backend, models, want)  # noqa: E731
                pulled = await world.call(self, run, twice=False)
            except StoreUnavailable:
                continue
            for granted in pulled.jobs:
                attempt = Attempt(granted, backend, await self._prefix(granted))
                attempt.before = self.attempts.get(granted.id)
                self.attempts[granted.id] = attempt
                world.schedule.spawn(self, self._generate, attempt)
                if self.product is not None:
                    world.schedule.spawn(self, self.product.run, attempt)
                else:
                    world.schedule.spawn(self, Sending(world, self, attempt).run)
            if pulled.seen:
                await self._idle(backend, pulled.seen)

    async def _idle(self, backend: str, seen: dict[str, str]) -> None:
        """Until something is submitted or freed: no word of it may be missed, or the job waits ``BLOCK_S``."""
        world = self.world
        until = world.schedule.now_us + int(BLOCK_S * 1_000_000)
        looked = -1
        while self.draining or (backend not in self.wake and world.schedule.now_us < until):
            if not self.draining and looked != world.writes:
                looked = world.writes
                if (await ask(world.lanes, [("XREAD", "COUNT", 1, "STREAMS", *seen, *seen.values())]))[0]:
                    return
            await world.sleep(self, 0.005, 0.04)

    async def _generate(self, attempt: Attempt) -> None:
        """The engine: words from the prefix on, or an error, or the end of a segment."""
        world, job = self.world, attempt.job
        try:
            (body,) = await world.call(self, lambda: world.lanes.body([job.id]))
        except StoreUnavailable:
            attempt.finish = "error"
            return
        if body is None:
            attempt.finish = "error"
            return
        ask_for = json.loads(body)
        done = len(words(attempt.prefix))
        number = world.ledger.attempt(job.id, attempt.prefix)
        breaks_at = world.rng.randint(0, 12) if world.faults and world.rng.random() < 0.12 else -1
        await world.sleep(self, 0.02, 0.3)
        for count in range(ask_for["words"] - done):
            while attempt.paused and not attempt.closed:
                await world.sleep(self, 0.1)
            if attempt.closed:
                return
            if count == breaks_at:
                attempt.finish = "error"
                return
            if ask_for["segment"] and count == ask_for["segment"]:
                attempt.finish = "segment"
                return
            attempt.pieces.append(word(done + count, number))
            if count == 0:
                world.schedule.spawn(self, self._first, attempt)
            await world.sleep(self, 0.005, 0.3)
        attempt.finish = "done"

    async def _prefix(self, job: Granted) -> str:
        if job.prefix != REPLY:
            return unsnapped(job.prefix)
        (entries,) = await ask(self.world.lanes, [("XRANGE", self.world.lanes.keys.reply(job.id), "-", "+")])
        return fold(entries, before=job.fence).text

    async def _first(self, attempt: Attempt) -> None:
        """The first token is there: its prefill is credit for others."""
        world, job = self.world, attempt.job
        try:
            await world.call(self, lambda: world.lanes.prefilled([(job.id, job.fence)]))
        except StoreUnavailable:
            return
        self.wake.add(attempt.backend)

    async def drain(self) -> None:
        """Gives back all that it has, and is gone."""
        world = self.world
        self.draining = True
        while any(not attempt.over for attempt in self.attempts.values()):
            for attempt in self.attempts.values():
                attempt.finish = attempt.finish or "drain"
            await world.sleep(self, 0.05)
        with suppress(StoreUnavailable):
            await world.call(self, world.lanes.ring_bell, twice=False)
        self.drained = True


async def keep_reaping(world: World, actor: Actor) -> None:
    """Every worker and gateway does, each quarter of a lease."""
    while True:
        with suppress(StoreUnavailable):
            run = lambda: world.lanes.reap(world.plan.lease_s, world.plan.hold_s)  # noqa: E731
            reaped = await world.call(actor, run, twice=False)
            world.ledger.counts["taken over"] += reaped.taken_over
        await world.sleep(actor, world.plan.lease_s / 4 * 0.8, world.plan.lease_s / 4)
