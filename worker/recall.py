"""Jobs that were granted to this worker, and of which it knows nothing, go back to their places."""

from __future__ import annotations

from worker.pool import Pool


async def recall(pool: Pool, backend: str) -> int:
    """Returns how many. Not while a pull for that back end is under way. Raises ``StoreUnavailable``."""
    in_hand = [(hand.job.id, hand.job.fence) for hand in pool.hands.values()]
    recalled = await pool.lanes.recall(pool.worker, backend, in_hand)
    pool.recalled[backend] = recalled.at_us
    for hand in list(pool.hands.values()):
        job = hand.job
        if hand.engine.name != backend or job.fence > recalled.at_us or (job.id, job.fence) in in_hand:
            continue
        if not hand.events:
            # It came meanwhile by the standing order, and has been put back.
            hand.stop("lost")
    return recalled.jobs
