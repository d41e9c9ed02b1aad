"""Signs of life: the leases of the jobs in hand, this worker's presence, and the word that comes for it."""

from __future__ import annotations

import logging
import time

from buffer.load import WorkerPresence, publish_worker
from buffer.records import Held
from worker.firsts import report_first_pieces
from worker.pool import Pool

log = logging.getLogger("doublebuffer.worker")


class Leases:
    """Renews every quarter of a lease, and at once when the store is back."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._started_at = time.time()

    async def run(self) -> None:
        pool = self._pool
        await pool.keep_on(self._renew, every_s=pool.settings.lease_seconds / 4, hurry=pool.renew_now)

    async def _renew(self) -> None:
        pool = self._pool
        hands = list(pool.hands.values())
        held = [Held(hand.job.id, hand.job.fence, hand.engine.name) for hand in hands]
        results = await pool.lanes.renew(pool.worker, held, pool.settings.lease_seconds)
        for hand, result in zip(hands, results, strict=True):
            pool.replies.readdress(hand.job.id, result.inbox)
            if result.status == "cancel":
                hand.stop("cancel")
            elif result.status != "ok" and not hand.closing:
                log.warning("job %s is no longer ours (%s)", hand.job.id, result.status)
                hand.stop("lost")
        for engine in pool.engines:
            if engine.short or pool.stopping:
                await report_first_pieces(pool, engine)
        await publish_worker(pool.lanes.store, pool.lanes.keys, self._presence(), pool.settings.lease_seconds)
        if not pool.connected.is_set():
            pool.connected.set()
            pool.wake()

    def _presence(self) -> WorkerPresence:
        return WorkerPresence(
            id=self._pool.worker,
            started_at=self._started_at,
            backends=[engine.name for engine in self._pool.engines],
            draining=self._pool.stopping,
        )
