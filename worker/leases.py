"""Signs of life: the leases of the jobs in hand, this worker's presence, and the word that comes for it."""

from __future__ import annotations

import logging
import time
from importlib.metadata import version

from buffer.load import WorkerPresence, publish_worker
from buffer.records import Held, Renewed
from buffer.store import StoreUnavailable
from buffer.timing import Alarm
from worker.firsts import report_read
from worker.hand import Hand
from worker.pool import Pool
from worker.recall import recall

log = logging.getLogger("doublebuffer.worker")

ASK_AGAIN_S = 0.5
"""How often it is asked for jobs that the store does not know."""
MOST_HELD_UP_S = 2.0
"""How long nothing is pulled after an outage while there are such jobs. A store that came back older may have them in
its queues: they would be begun a second time. One that came back empty does not know that their places are taken.
"""


class Leases:
    """Renews every quarter of a lease, and at once when the store is back.

    A store that came back empty or older does not know the jobs in hand. Their gateways put them there again; until
    then, for a lease at most, their engines go on and their answers are kept here.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._started_at = time.time()
        self._version = version("doublebuffer")
        self._back_at = 0.0
        """When the store answered for the first time after an outage, while nothing is pulled yet; else 0."""
        self._met = False
        """It has answered before."""
        self._ask_again = Alarm(min(ASK_AGAIN_S, pool.settings.lease_seconds / 4), pool.renew_now.set)

    async def run(self) -> None:
        pool = self._pool
        try:
            await pool.keep_on(self._renew, every_s=pool.settings.lease_seconds / 4, hurry=pool.renew_now)
        finally:
            self._ask_again.clear()

    async def _renew(self) -> None:
        pool = self._pool
        was_away = not pool.connected.is_set() and not self._back_at
        hands = [each for hand in pool.hands.values() for each in hand.line()]
        held = [Held(hand.job.id, hand.job.fence, hand.engine.name) for hand in hands]
        try:
            results = await pool.lanes.renew(pool.worker, held, pool.settings.lease_seconds, stands=bool(pool.standing))
        except StoreUnavailable:
            self._back_at = 0.0
            raise
        pool.renewed_at = time.monotonic()
        orphans = sum(hand.orphan_at is not None for hand in hands)
        for hand, result in zip(hands, results, strict=True):
            self._take(hand, result, was_away)
        more = sum(hand.orphan_at is not None for hand in hands) - orphans
        if more > 0:
            log.warning("the store does not know %d jobs in hand; they go on until their gateways ask for them", more)
        await self._recall()
        for engine in pool.engines:
            if engine.short or pool.stopping:
                await report_read(pool, engine)
            if pool.standing.differs(engine):
                engine.wake.set()
        await publish_worker(pool.lanes.store, pool.lanes.keys, self._presence(), pool.settings.lease_seconds)
        if not pool.connected.is_set() and not pool.unsure and not self._held_up():
            self._back_at = 0.0
            pool.connected.set()
            pool.wake()
            for engine in pool.engines if self._met else ():
                # What was told of it may be lost, and others go by that.
                engine.look.set()
            self._met = True

    def _held_up(self) -> bool:
        """Whether to wait before anything is pulled."""
        now_at = time.monotonic()
        self._back_at = self._back_at or now_at
        orphans = any(hand.orphan_at is not None for hand in self._pool.hands.values())
        if not orphans or now_at - self._back_at >= MOST_HELD_UP_S:
            return False
        self._ask_again.set()
        return True

    def _take(self, hand: Hand, result: Renewed, was_away: bool) -> None:
        """What the store told of one job."""
        kept = self._pool.replies.renewed(hand.job.id, hand.job.fence, result)
        match result.status:
            case "orphan":
                self._wait_for_adoption(hand, was_away)
            case "adopt" if kept:
                log.info("job %s is known again, and goes on", hand.job.id)
                hand.adopted(result.fence, result.inbox)
                # Whether its client has left meanwhile.
                self._pool.renew_now.set()
            case "adopt":
                log.warning("job %s: too much of its answer was lost", hand.job.id)
                self._lose(hand)
            case "lost" if not hand.closing:
                log.warning("job %s is no longer ours", hand.job.id)
                hand.stop("lost")
            case "ok" | "cancel":
                hand.orphan_at = None
                if result.status == "cancel":
                    hand.stop("cancel")
                else:
                    # The word of a grant may have been lost, as may that of one who needs the place.
                    hand.may_read(result.upto)
                    if result.yields and hand.yields:
                        hand.stop("yield")

    def _wait_for_adoption(self, hand: Hand, was_away: bool) -> None:
        now_at = hand.engine.clock()
        if hand.orphan_at is None or was_away:
            # Its gateway needs the store too, to put the job there again.
            hand.orphan_at = now_at
        if now_at - hand.orphan_at < self._pool.settings.lease_seconds:
            self._ask_again.set()
        else:
            log.warning("job %s: its gateway did not ask for it; it is given up", hand.job.id)
            self._lose(hand)

    def _lose(self, hand: Hand) -> None:
        if hand.closing:
            self._pool.replies.drop(hand.job.id)
        else:
            hand.stop("lost")

    async def _recall(self) -> None:
        """A pull that was not answered may have been carried out, and jobs may have come by a standing order: what was
        granted and is not known here goes back to its place."""
        pool = self._pool
        for backend in list(pool.unsure):
            count = await recall(pool, backend)
            pool.unsure.discard(backend)
            if count:
                log.warning("%d jobs that came for %s while the store did not answer were put back", count, backend)

    def _presence(self) -> WorkerPresence:
        return WorkerPresence(
            id=self._pool.worker,
            started_at=self._started_at,
            backends=[engine.name for engine in self._pool.engines],
            draining=self._pool.stopping,
            version=self._version,
        )
