"""Prefill credit: a job holds it until its prompt is read, piece by piece or up to the first words of its answer. The
store is told where somebody may wait for that."""

from __future__ import annotations

from buffer.records import Piece
from worker.engine import Engine
from worker.hand import Hand
from worker.pool import Pool


def unreported(pool: Pool, engine: Engine) -> list[tuple[Hand, int]]:
    """Jobs at ``engine`` of which more has been read than the store knows: up to which token; 0: their answers have
    begun."""
    news = []
    for hand in pool.hands.values():
        if hand.engine is engine:
            if hand.first_at is not None:
                if not hand.prefilled:
                    news.append((hand, 0))
            elif hand.had > hand.told:
                news.append((hand, hand.had))
    return news


async def report_read(pool: Pool, engine: Engine) -> bool:
    """Frees their credit. False: there is none to be freed. Raises ``StoreUnavailable``."""
    news = [(hand, Piece(hand.job.id, hand.job.fence, upto)) for hand, upto in unreported(pool, engine)]
    if not news:
        return False
    await pool.lanes.prefilled([piece for _, piece in news])
    for hand, piece in news:
        if hand.job.fence == piece.fence:
            hand.prefilled, hand.told = piece.upto == 0, max(hand.told, piece.upto)
    if pool.stopping or not engine.able:
        # This worker will not pull for it.
        await pool.lanes.ring_bell()
    return True
