"""A gateway: submits, follows its inbox, watches, hands on what was lost, cancels. Its clients come by ``serve``."""

from __future__ import annotations

from dataclasses import replace

from buffer.access import StoreUnavailable
from buffer.frames import Part, unpack
from buffer.job import Content
from tests.properties.following import Following
from tests.properties.handing_on import HandingOn, Open
from tests.properties.ledger import Client
from tests.properties.schedule import Actor
from tests.properties.state import ask
from tests.properties.text import ENDS, Folded, fold
from tests.properties.working import keep_reaping
from tests.properties.world import World

NO_PROGRESS_US = 8_000_000
WATCH_S = 5.0


class Gateway(Actor):
    def __init__(self, world: World, name: str) -> None:
        super().__init__(name)
        self.world = world
        self.jobs: dict[str, Open] = {}
        self.served: set[str] = set()
        self.inbox = ""
        self._incarnation = 0
        self._read_to = "0-0"
        self._cancelled: set[str] = set()
        world.schedule.spawn(self, self._live)

    async def _live(self) -> None:
        await self._new_inbox()
        for loop in (self._read, self._watch, self._mend):
            self.world.schedule.spawn(self, loop)
        self.world.schedule.spawn(self, keep_reaping, self.world, self)

    async def serve(self, client: Client, limit: int) -> None:
        """One client's request, until it is submitted."""
        world = self.world
        while not self.inbox:
            await world.sleep(self, 0.05)
        following = Following(lambda piece: world.deliver(client, piece), lambda kind: world.finish(client, kind))
        one = self.jobs[client.job.id] = Open(client, following)
        if await self.submit(one, limit) == "full":
            self.jobs.pop(one.id, None)
            world.finish(client, "full")
        one.submitted = True

    async def submit(self, one: Open, limit: int = 0) -> str:
        while True:
            home = self.inbox
            job = replace(one.client.job, inbox=home)
            try:
                submitted = await self.world.call(self, lambda job=job: self.world.submit(job, limit=limit))
            except StoreUnavailable:
                continue
            if submitted.status != "homeless":
                one.home = home
                return str(submitted.status)
            if self.inbox == home:
                await self._new_inbox()

    async def leave(self, client: Client) -> None:
        """The client hangs up."""
        if client.over or client.job.id not in self.jobs:
            return
        client.left = True
        if not client.job.det:
            del self.jobs[client.job.id]
            await self._cancel(client.job.id)

    async def slow(self, client: Client, seconds: float) -> None:
        """The client takes nothing for so long."""
        for word in ("pause", "go"):
            while True:
                try:
                    run = lambda word=word: self.world.lanes.signal(client.job.id, word)  # noqa: E731
                    await self.world.call(self, run, twice=False)
                except StoreUnavailable:
                    continue
                break
            await self.world.sleep(self, seconds)

    async def _cancel(self, job_id: str) -> None:
        self._cancelled.add(job_id)
        for _ in range(100):
            try:
                await self.world.call(self, lambda: self.world.lanes.cancel(job_id))
            except StoreUnavailable:
                continue
            return

    async def _new_inbox(self) -> None:
        while True:
            self._incarnation += 1
            name = f"{self.name}:{self._incarnation}"
            try:
                await self.world.call(self, lambda name=name: self.world.create_inbox(name))
            except StoreUnavailable:
                continue
            self.inbox, self._read_to = name, "0-0"
            return

    async def _read(self) -> None:
        lanes, seen = self.world.lanes, -1
        while True:
            await self.world.sleep(self, 0.005, 0.03)
            if seen == self.world.writes:
                continue
            seen = self.world.writes
            key, name = lanes.keys.inbox(self.inbox), self.inbox
            for _, entries in (await ask(lanes, [("XREAD", "COUNT", 20, "STREAMS", key, self._read_to)]))[0] or []:
                for entry_id, fields in entries:
                    self._read_to, seen = entry_id.decode(), -1
                    for part in unpack(fields):
                        self._part(part)
            await self.world.sleep(self, 0.005)
            if self.inbox == name:
                await ask(lanes, [("XTRIM", key, "MINID", self._read_to)])

    def _part(self, part: Part) -> None:
        job_id, kind = part.id, part.kind
        one = self.jobs.get(job_id)
        if one is None:
            if kind not in ENDS and job_id not in self._cancelled:
                self.world.schedule.spawn(self, self._cancel, job_id)
            return
        following, now = one.following, self.world.schedule.now_us
        pieces = [event.text for event in part.events if isinstance(event, Content)]
        outcome = following.part(part.fence, part.n, kind, pieces, part.data)
        if outcome == "end":
            del self.jobs[job_id]
        elif outcome == "lost":
            one.lost = True
            self._hand_on(one)
        elif outcome in ("took", "behind"):
            since = now if outcome == "took" else following.waits_since_us or now
            following.waits_since_us = 0 if following.level else since

    async def _mend(self) -> None:
        """Reads the reply keys of those that lack something."""
        world = self.world
        while True:
            for one in [one for one in self.jobs.values() if one.following.waits_since_us and not one.handing_on]:
                following, folded = one.following, await self.fold(one.id)
                if following.caught_up(folded):
                    world.ledger.counts["caught up"] += 1
                    following.waits_since_us = 0 if following.level else world.schedule.now_us
                    if following.end:
                        self.jobs.pop(one.id, None)
                elif world.schedule.now_us - following.waits_since_us > NO_PROGRESS_US:
                    world.ledger.counts["taken back"] += 1
                    self._hand_on(one)
            await world.sleep(self, 0.1, 0.3)

    async def fold(self, job_id: str) -> Folded:
        lanes = self.world.lanes
        (entries,) = await ask(lanes, [("XRANGE", lanes.keys.reply(job_id), "-", "+")])
        return fold(entries)

    def _hand_on(self, one: Open) -> None:
        if not one.handing_on:
            one.handing_on = one.following.frozen = True
            self.world.schedule.spawn(self, HandingOn(self, one).run)

    async def _watch(self) -> None:
        world = self.world
        while True:
            open_jobs = [one for one in self.jobs.values() if one.submitted]
            ids = [one.id for one in open_jobs]
            try:
                home = self.inbox
                watched = await world.call(self, lambda ids=ids, home=home: world.watch(home, ids))
            except StoreUnavailable:
                continue
            if not watched.inbox_there and self.inbox == home:
                await self._new_inbox()
                world.ledger.counts["new inbox"] += 1
            for one, (state, fence) in zip(open_jobs, watched.states, strict=True):
                if one.id not in self.jobs or one.handing_on:
                    continue
                if state == "gone":
                    await HandingOn(self, one).restore()
                elif one.home != self.inbox and state != "done":
                    if await self.submit(one) == "new" and one.following.text:
                        HandingOn(self, one).ended("failed")
                    one.following.waits_since_us = one.following.waits_since_us or world.schedule.now_us
                elif state == "done" or fence > one.following.fence:
                    one.following.waits_since_us = one.following.waits_since_us or world.schedule.now_us
            await world.sleep(self, WATCH_S * 0.8, WATCH_S)
