"""A long prompt, read in pieces: as far as the store allows, while others' jobs go between; then all the rest.

A job that is read so keeps its place at its back end from its first piece to its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from backends.base import BackendError, Beginning
from policy.learned import LEAST_PREFILL
from worker.engine import Engine
from worker.hand import Hand
from worker.pool import Pool

log = logging.getLogger("doublebuffer.worker")


def half_read(pool: Pool, engine: Engine) -> list[Hand]:
    """Jobs at ``engine`` whose prompts the store does not let be read to the end yet."""
    return [hand for hand in pool.hands.values() if hand.upto and hand.engine is engine]


@asynccontextmanager
async def read_in_pieces(hand: Hand) -> AsyncIterator[Beginning | None]:
    """Reads the prompt up to where all the rest may go. None: it goes whole. Raises ``BackendError``."""
    engine = hand.engine
    beginning = None
    if hand.upto:
        model = engine.upstream(hand.job.model) or hand.chat.model
        beginning = await engine.backend.beginning(hand.chat, upstream_model=model)
    if beginning is None or beginning.tries:
        hand.may_read(0)
    if beginning is None:
        yield None
        return
    try:
        await Reading(hand, beginning).run()
        yield beginning
    finally:
        beginning.close()


class Reading:
    """The pieces of one attempt. Leaving ``run`` closes their connections."""

    def __init__(self, hand: Hand, beginning: Beginning) -> None:
        self._hand = hand
        self._beginning = beginning
        self._under_way = 0
        known = 1 - hand.job.prefill / max(1, hand.job.prompt, hand.job.prefill)
        self._read_upto, self._read_at = round(known * beginning.tokens), hand.engine.clock()
        self._seen, self._seen_s = 0, 0.0
        """Tokens that were read since something was learned of them, and how long that took."""

    async def run(self) -> None:
        """Until all the rest may go. Raises ``BackendError``: what the first piece that failed came to."""
        try:
            async with asyncio.TaskGroup() as pieces:
                await self._follow(pieces)
        except BaseExceptionGroup as group:
            failed, others = group.split(BackendError)
            if failed is None or others is not None:
                raise
            raise failed.exceptions[0] from None

    async def _follow(self, pieces: asyncio.TaskGroup) -> None:
        """Sends what may be read, as soon as it may."""
        hand, sent = self._hand, 0
        while upto := hand.upto:
            hand.more.clear()
            if upto > sent and self._under_way < self._beginning.at_once:
                sent = upto
                self._under_way += 1
                pieces.create_task(self._read(upto), name=f"job {hand.job.id} up to {upto}")
            else:
                await hand.more.wait()

    async def _read(self, upto: int) -> None:
        hand, whole = self._hand, self._beginning.tokens
        # The store counts in tokens as estimated, the engine in its own.
        tokens = min(whole, max(1, round(upto / max(upto, hand.job.prompt) * whole)))
        began_at = hand.engine.clock()
        try:
            await self._beginning.read(tokens)
        except BackendError as error:
            if error.kind != "client":
                raise
            # The request itself may be none the worse.
            log.info("job %s: back end %s does not read in pieces; it goes whole", hand.job.id, hand.engine.name)
            hand.may_read(0)
        else:
            hand.had = max(hand.had, upto)
            hand.pace.piece(hand.engine.clock() - hand.started_at, tokens)
            if hand.span is not None:
                hand.span.piece(tokens)
            self._learn(tokens, began_at)
            hand.engine.wake.set()
        finally:
            self._under_way -= 1
            hand.more.set()

    def _learn(self, tokens: int, began_at: float) -> None:
        """How fast its engine read up to there: it began with a piece when that came, or when the last one was over."""
        engine, now_at = self._hand.engine, self._hand.engine.clock()
        if self._hand.job.lane == "background":
            return  # where it is read with care, its pieces tell of their pauses, and not of the engine
        self._seen += max(0, tokens - self._read_upto)
        self._seen_s += now_at - max(began_at, self._read_at)
        self._read_upto, self._read_at = max(tokens, self._read_upto), now_at
        model = engine.upstream(self._hand.job.model)
        if model is not None and self._seen >= LEAST_PREFILL:
            engine.learning.of(model).prefill(self._seen, self._seen_s)
            self._seen, self._seen_s = 0, 0.0
