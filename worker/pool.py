"""What the tasks of one pool share: its lanes, its back ends, the jobs in hand, and whether the store is there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from buffer.control import Control, Handed
from buffer.lanes import Lanes
from buffer.load import BackendState, read_states
from buffer.memory import Memory
from buffer.records import Granted, Limits, Pulled
from buffer.replies import ReplyWriter
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.telemetry import Telemetry
from buffer.timing import Backoff, wait_for
from worker.engine import Engine
from worker.hand import Hand
from worker.known import Known
from worker.standing import Standing

log = logging.getLogger("doublebuffer.worker")

MOST_CANCELLED = 256


@dataclass(slots=True)
class Pool:
    worker: str
    """This worker's id."""
    settings: Settings
    lanes: Lanes
    replies: ReplyWriter
    telemetry: Telemetry
    engines: list[Engine]
    hands: dict[str, Hand]
    """Jobs owned now, by id."""
    standing: Standing
    cancelled: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """Id → fence of jobs whose cancel came on its connection before their grant came on another; ``MOST_CANCELLED`` of
    them."""
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    """The store answered the last renewal. Nothing is pulled while it is unset: after an outage the leases come
    first."""
    renew_now: asyncio.Event = field(default_factory=asyncio.Event)
    unsure: set[str] = field(default_factory=set)
    """Back ends for which a pull was not answered: it may have granted jobs that nobody here knows of. Nothing is
    pulled until that is known."""
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    """A drain has room and found too little: the doorbell is to listen."""
    states: list[BackendState] = field(default_factory=list)
    """What the workers tell of their back ends, this one included; see ``Known``."""
    known: Known = field(default_factory=Known)
    stopping: bool = False
    takers: dict[str, Callable[[Handed], None]] = field(default_factory=dict)
    """By back end: who takes the jobs that come by its standing order."""
    renewed_at: float = 0.0
    """When the store last answered a renewal: seconds of ``time.monotonic``."""
    recalled: dict[str, int] = field(default_factory=dict)
    """Back end → instant, µs: what had been granted for it up to then, and was not known here, has been put back."""

    def away(self) -> None:
        """The store did not answer."""
        if not self.lanes.store.embedded:
            # What came by standing orders, which may be taken back by now, may be read twice, or not at all.
            self.unsure.update(engine.name for engine in self.engines)
        if self.connected.is_set():
            self.connected.clear()
            log.warning("the store does not answer; waiting for it")
        self.renew_now.set()

    async def hear(self) -> list[BackendState]:
        """Asks the store what workers tell of back ends, for ``states``. Returns what it tells now. Raises
        ``StoreUnavailable``."""
        told = await read_states(self.lanes.store, self.lanes.keys)
        self.states = self.known.hear(told, asyncio.get_running_loop().time())
        return told

    async def pull(
        self,
        backend: str,
        queues: Sequence[str],
        *,
        want: int,
        limits: Limits,
        left_by: Sequence[str] = (),
        goes_on: bool = True,
        memory: Memory | None = None,
    ) -> Pulled:
        """Jobs for a back end; one call at a time for each. What may be read further of those in hand is passed on. The
        rest as for ``Lanes.pull``. Raises ``StoreUnavailable``."""
        recalled_us = self.recalled.get(backend, 0)
        try:
            pulled = await self.lanes.pull(
                self.worker,
                backend,
                queues,
                want=want,
                limits=limits,
                lease_s=self.settings.lease_seconds,
                left_by=left_by,
                goes_on=goes_on,
                memory=memory,
            )
        except StoreUnavailable:
            self.unsure.add(backend)
            self.away()
            raise
        if (now_us := self.recalled.get(backend, 0)) != recalled_us:
            # Some other command was not answered while this one was under way.
            pulled.jobs[:] = [job for job in pulled.jobs if job.fence > now_us]
        for piece in pulled.pieces:
            hand = self.hands.get(piece.id)
            if hand is not None and hand.job.fence == piece.fence:
                hand.may_read(piece.upto)
        return pulled

    def take(self, job: Granted, engine: Engine) -> Hand:
        """From here on the job's lease is renewed."""
        before = self.hands.get(job.id)
        if before is not None:
            before.stop("lost")
        self.count_fallback(engine, job.model)
        hand = self.hands[job.id] = Hand(job, engine, before)
        engine.started(hand.stream)
        if self.cancelled.pop(job.id, None) == job.fence:
            hand.stop("cancel")
        return hand

    def told(self, control: Control | Handed) -> None:
        """Word from a gateway: of a job, or to all; or from a worker that pulled for one of our back ends."""
        if isinstance(control, Handed):
            self._handed(control)
            return
        if control.kind == "look":
            for engine in self.engines:
                if engine.name == control.id:
                    engine.look.set()
            return
        hand = self.hands.get(control.id)
        if hand is not None and hand.job.fence == control.fence:
            match control.kind:
                case "cancel":
                    hand.stop("cancel")
                case "pause":
                    self.replies.pause(control.id)
                case "go":
                    self.replies.go(control.id)
                case "piece":
                    hand.may_read(control.upto)
                case "yield" if hand.yields:
                    hand.stop("yield")
        elif control.kind == "cancel" and (hand is None or hand.job.fence < control.fence):
            self.cancelled[control.id] = control.fence
            if len(self.cancelled) > MOST_CANCELLED:
                self.cancelled.popitem(last=False)

    def _handed(self, handed: Handed) -> None:
        """A job came by a standing order. Not one that has been put back meanwhile; at the end all are that are not in
        hand."""
        job, taker = handed.job, self.takers.get(handed.backend)
        hand = self.hands.get(job.id)
        if taker is None or self.stopping or job.fence <= self.recalled.get(handed.backend, 0):
            return
        if hand is not None and hand.job.fence >= job.fence:
            return
        if time.monotonic() - self.renewed_at > self.settings.lease_seconds / 2:
            # This process did not move for so long that the job may be another's by now.
            self.connected.clear()
            self.unsure.add(handed.backend)
            self.renew_now.set()
            return
        taker(handed)

    def count_fallback(self, engine: Engine, queue: str) -> None:
        """A job of this queue goes to ``engine``: maybe in another's place."""
        if engine.stand_in is not None and engine.stand_in.for_whom(queue):
            self.telemetry.fallbacks.labels(engine.name).inc()

    def out_of_service(self, engine: Engine) -> None:
        """A back end is down, or its breaker has opened: those that stand in for it look."""
        for other in self.engines:
            if other.stand_in is not None and engine.name in other.stand_in.names:
                other.wake.set()
                other.on_news()

    def wake(self) -> None:
        """Something came in: every back end's drain looks."""
        for engine in self.engines:
            engine.wake.set()

    async def keep_on(
        self, step: Callable[[], Awaitable[None]], *, every_s: float, hurry: asyncio.Event | None = None
    ) -> None:
        """Runs ``step`` again and again, ``every_s`` seconds apart or when hurried; while the store is away, with
        growing pauses."""
        backoff = Backoff(most_s=max(0.1, min(2.0, every_s)))
        while True:
            if hurry is not None:
                hurry.clear()
            try:
                await step()
            except StoreUnavailable:
                self.away()
                await backoff.wait()
                continue
            backoff.reset()
            if hurry is None:
                await asyncio.sleep(every_s)
            else:
                await wait_for(hurry, every_s)

    async def drain(self, turn: Callable[[], Awaitable[float | None]], wake: asyncio.Event) -> None:
        """Takes turns until the pool stops. ``turn`` gives the seconds to wait for ``wake`` at most, None for no end.

        An idle drain waits to be woken; it asks the store for nothing meanwhile.
        """
        backoff = Backoff()
        while not self.stopping:
            # Cleared before looking, so that whatever comes in while it looks makes it look again.
            wake.clear()
            try:
                wait_s = await turn() if self.connected.is_set() else None
            except StoreUnavailable:
                self.away()
                await backoff.wait()
                continue
            backoff.reset()
            if wait_s != 0:
                await wait_for(wake, wait_s)
