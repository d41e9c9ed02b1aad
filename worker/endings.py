"""How requests for embeddings leave this worker: settled, or given back for another attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from backends.base import NO_MODEL, OUR_KEY, BackendError
from buffer.job import End
from buffer.records import GivenBack
from buffer.store import StoreUnavailable
from worker.aftermath import LEAVE_S, RETRY_FIRST_S, RETRY_MOST_S, refused_s
from worker.desk import Desk, EmbeddingPool, EmbedHand


class Endings:
    """Of one desk. What it begins, it begins in tasks of their own: a call may be broken off at any moment."""

    def __init__(self, pool: EmbeddingPool, desk: Desk, tasks: asyncio.TaskGroup) -> None:
        self._pool = pool
        self._desk = desk
        self._tasks = tasks

    def passes_on(self, queue: str, error: BackendError) -> bool:
        """Whether what this back end refused is for another one, since the fault is its own. If it is, it is looked at
        at once."""
        if error.code not in (OUR_KEY, NO_MODEL):
            return False
        self._desk.engine.look.set()
        return self._others(queue)

    def _others(self, queue: str) -> bool:
        return any(other is not self._desk and other.takes(queue) for other in self._pool.desks)

    def again(self, queue: str, hands: Sequence[EmbedHand], end: End, *, refused: bool) -> None:
        """Gives jobs back for another attempt; those whose attempts are used up end so."""
        for hand in hands:
            hand.closing = True
        self._tasks.create_task(self._again(queue, hands, end, refused))

    async def _again(self, queue: str, hands: Sequence[EmbedHand], end: End, refused: bool) -> None:
        """Another back end may have them at once, this one after a pause, at whichever worker."""
        pool, most = self._pool, self._pool.settings.max_attempts
        leave_s = 0.0
        if self._others(queue):
            leave_s = LEAVE_S
        elif hands and refused:
            leave_s = refused_s(hands[0].job.fails)
        elif hands and hands[0].job.fails + 1 < most and not pool.stopping:
            await asyncio.sleep(min(RETRY_MOST_S, RETRY_FIRST_S * 2.0 ** hands[0].job.fails))
        if leave_s:
            asyncio.get_running_loop().call_later(leave_s, self._desk.wake.set)
        back = GivenBack("error", max_attempts=most, failure=end, leave_s=leave_s)
        outcomes = await asyncio.gather(*(pool.replies.release(hand.job.id, back) for hand in hands))
        pool.telemetry.dead_letters.inc(outcomes.count("ended"))
        for hand in hands:
            self.put_away(hand)

    def all(self, hands: Sequence[EmbedHand], end: End) -> None:
        """Settles jobs, all in the same way."""
        for hand in hands:
            hand.closing = True
            self._tasks.create_task(self.one(hand, end), name=f"job {hand.job.id}")

    async def one(self, hand: EmbedHand, end: End, *, dead: str = "") -> None:
        """Settles a job. ``dead``: reason of a dead letter."""
        hand.closing = True
        try:
            await self._pool.replies.finish(hand.job.id, end, real_tokens=hand.tokens, dead=dead)
        finally:
            self.put_away(hand)
        if self._pool.stopping or not self._desk.able:
            await self._ring()

    async def hand_back(self, hand: EmbedHand) -> None:
        """To whoever is there next: this worker stops. It counts as no attempt."""
        hand.closing = True
        await self._pool.replies.release(hand.job.id, GivenBack("drain"))
        self.put_away(hand)

    def put_away(self, hand: EmbedHand) -> None:
        """A job that was given back may be in hand again by now, as another attempt: that one stays."""
        if self._pool.hands.get(hand.job.id) is hand:
            del self._pool.hands[hand.job.id]
            self._pool.replies.drop(hand.job.id)
        hand.away.set()
        self._desk.wake.set()

    async def _ring(self) -> None:
        """Places became free that this worker will not fill: let the others know."""
        try:
            await self._pool.lanes.ring_bell()
        except StoreUnavailable:
            self._pool.away()
