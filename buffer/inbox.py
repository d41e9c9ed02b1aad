"""The gateway's side of the answers: one stream for all of its jobs, read over one connection, handed out to
followers.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress

from msgspec import structs

from buffer.access import StoreUnavailable
from buffer.desk import Want
from buffer.errands import Errands
from buffer.failures import GOES_ON, LOST, STOPPING
from buffer.follower import Follower
from buffer.frames import Part
from buffer.incoming import Incoming
from buffer.job import Chat
from buffer.lanes import Lanes
from buffer.records import NewJob, Submitted
from buffer.timing import Backoff

log = logging.getLogger("doublebuffer.buffer")

WATCH_S = 5.0
GIVE_UP_S = 8.0
"""How long an answer may lack something that its reply key does not bring either."""
MOST_AWAY_S = 60.0
"""How long clients are kept waiting for a store that is away."""
RESTORE_S = 1.0
"""How long it may take, once that was found, until what the store has lost is back in it."""
CLOSE_S = 2.0
LEASE_S = 15.0


class Inbox:
    """``create``, then ``run`` beside everything else.

    ``lease_s``: how long whoever ran a job that was put into the store once more may come for it. ``resume``: let other
    attempts go on from the middle of an answer. ``watch_s``: how often it looks after its jobs; else so often that it
    finds a store that has lost them within a lease.
    """

    def __init__(
        self,
        lanes: Lanes,
        gateway: str,
        *,
        lease_s: float = LEASE_S,
        resume: bool = True,
        watch_s: float | None = None,
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self._lanes = lanes
        self._gateway = gateway
        self._resume = resume
        self._watch_s = min(WATCH_S, lease_s / 3) if watch_s is None else watch_s
        self.name = ""
        """``<gateway>:<incarnation>``: what a job's ``inbox`` is to be. Another after the stream was lost."""
        self._followers: dict[str, Follower] = {}
        self._errands = Errands(lanes, lambda: self.name, self._move_from, give_up_s=give_up_s, lease_s=lease_s)
        self._incoming = Incoming(lanes, self._followers, self._errands.cancel)
        self._watch_now = asyncio.Event()
        self._renewed = asyncio.Event()
        self._moving = asyncio.Lock()
        self._back_at = float("-inf")
        """When the store was last found to have been away, or emptied; seconds of the loop's clock."""

    async def create(self) -> None:
        """Makes the stream under a name never used before. Raises ``StoreUnavailable``."""
        name = f"{self._gateway}:{secrets.token_hex(4)}"
        await self._lanes.create_inbox(name)
        self.name = name
        self._renewed.set()

    async def submit(
        self, job: NewJob, *, limit: int = 0, whole: bool = False, chat: Chat | None = None
    ) -> tuple[Submitted, Follower | None]:
        """Submits a job under this inbox and follows it from before its first frame. None if it was refused.

        ``whole``, ``chat``: see ``Follower``. Raises ``StoreUnavailable``; a job that went in all the same is cancelled
        once the store is back. Raises ``ValueError`` if the job is followed.
        """
        if job.id in self._followers:
            raise ValueError(f"Job {job.id} is followed already.")
        follower = Follower(self, job.id, job=job, chat=chat, resume=self._resume, whole=whole)
        self._followers[job.id] = follower
        began_at = asyncio.get_running_loop().time()
        submitted: Submitted | None = None
        try:
            submitted = await self._submit(job, limit)
        finally:
            if submitted is None:
                follower.det = False
                follower.close()
        if submitted.status not in ("new", "known"):
            self._followers.pop(job.id, None)
            return submitted, None
        follower.submitted_at = began_at
        if submitted.status == "known":
            self.want(follower, "catch_up")
        elif submitted.backend:
            follower.take(Part(job.id, submitted.fence, 0, "start", data=f" {submitted.backend}"))
        return submitted, follower

    async def _submit(self, job: NewJob, limit: int) -> Submitted:
        while True:
            home = self.name
            if job.inbox != home:
                job = structs.replace(job, inbox=home)
            # Alone here, it is likely to find an idle engine.
            alone = len(self._followers) == 1
            submitted = await self._lanes.submit(job, limit=limit, offer=alone)
            if submitted.status != "homeless":
                return submitted
            await self._move_from(home)

    async def _move_from(self, home: str) -> None:
        """The stream of that name is gone: makes another, once, and has every job looked after that was at home there.

        Raises ``StoreUnavailable``.
        """
        async with self._moving:
            if self.name == home:
                log.warning("The inbox of this gateway was gone; it has a new one")
                # Workers may have lost their standing orders with it, and hear nothing but the bell.
                with suppress(StoreUnavailable):
                    await self._lanes.ring_bell()
                await self.create()
                self._look_after_all()

    async def may_lack(self) -> bool:
        """Whether the store may lack jobs that gateways are about to put back: it was away or emptied a moment ago.

        Raises ``StoreUnavailable``.
        """
        home = self.name
        if home and not (await self._lanes.watch(home, [])).inbox_there:
            await self._move_from(home)
        return asyncio.get_running_loop().time() - self._back_at < self._watch_s + RESTORE_S

    async def run(self) -> None:
        """Reads, watches and tidies up, until cancelled; through any outage of the store."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._errands.run(), name="inbox errands")
            group.create_task(self._watch_on(), name="inbox watch")
            while True:
                self._renewed.clear()
                reader = group.create_task(self._incoming.read(self.name, self._look_after_all), name="inbox read")
                await self._renewed.wait()
                reader.cancel()

    async def close(self) -> None:
        """Ends every answer that is still followed, has their jobs cancelled but for the detached ones, and returns
        when that is done; at the latest after ``CLOSE_S``.
        """
        # Those that wait first, lest one of them takes the place of one that runs.
        for follower in sorted(self._followers.values(), key=lambda one: one.started is not None):
            if follower.det:
                self._incoming.ignore(follower.id)
                follower.fail(GOES_ON)
            else:
                follower.fail(STOPPING, "cancel")
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._errands.done()

    def want(self, follower: Follower, what: Want) -> None:
        """Has something done at the store for a follower; returns at once."""
        if what == "forget":
            if follower.wanted:
                return  # detached: it is heard to its end, so that it can be restored
            if self._followers.get(follower.id) is follower:
                del self._followers[follower.id]
            if not follower.ended:
                self._incoming.ignore(follower.id)
                self._errands.cancel(follower.id)
        else:
            self._errands.want(follower, what)

    def _look_after_all(self) -> None:
        self._back_at = asyncio.get_running_loop().time()
        self._watch_now.set()

    async def _watch_on(self) -> None:
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        back_at = loop.time()
        while True:
            try:
                async with asyncio.timeout(self._watch_s):
                    await self._watch_now.wait()
            except TimeoutError:
                pass
            self._watch_now.clear()
            try:
                await self._watch()
                backoff.reset()
                back_at = loop.time()
            except StoreUnavailable:
                if loop.time() - back_at > MOST_AWAY_S:
                    for follower in list(self._followers.values()):
                        if not follower.det:
                            follower.fail(LOST, "cancel")
                await backoff.wait()
                self._watch_now.set()

    async def _watch(self) -> None:
        asked = [
            (follower, follower.fence)
            for follower in self._followers.values()
            if follower.submitted_at is not None and follower.wanted
        ]
        home = self.name
        watched = await self._lanes.watch(home, [follower.id for follower, _ in asked])
        if not watched.inbox_there:
            await self._move_from(home)
        for (follower, known), (state, fence) in zip(asked, watched.states, strict=True):
            if not follower.wanted:
                continue
            if state == "gone" or fence < known:
                self._errands.restore(follower)
            else:
                follower.note(fence, done=state == "done")
                follower.remind()
