"""Prefill credit: a job holds it until the first piece of its answer. The store is told only where somebody waits for
it."""

from __future__ import annotations

from buffer.records import Piece
from worker.engine import Engine
from worker.hand import Hand
from worker.pool import Pool


def first_pieces(pool: Pool, engine: Engine) -> list[Hand]:
    """Jobs at ``engine`` whose answers have begun, and of which the store has not been told."""
    return [
        hand
        for hand in pool.hands.values()
        if hand.engine is engine and hand.first_at is not None and not hand.prefilled
    ]


async def report_first_pieces(pool: Pool, engine: Engine) -> None:
    """Frees their credit. Raises ``StoreUnavailable``."""
    hands = first_pieces(pool, engine)
    if hands:
        await pool.lanes.prefilled([Piece(hand.job.id, hand.job.fence, 0) for hand in hands])
        for hand in hands:
            hand.prefilled = True
        if pool.stopping or not engine.able:
            # This worker will not pull for it.
            await pool.lanes.ring_bell()
