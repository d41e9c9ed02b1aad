"""What embeddings have in this worker: their requests in hand, their pool, and a desk at each back end.

Nothing here takes a place from a chat, or a back end from it: queue, leases, places and breaker are their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from buffer.records import Granted
from worker.breaker import Breaker
from worker.engine import Engine
from worker.hand import Hand, Why
from worker.pool import Pool


class EmbedHand(Hand):
    """A request for embeddings. Its inputs may go out in several calls, together with those of others."""

    __slots__ = ("_on_stop", "attached", "left", "load_ns", "prompt_ns")

    def __init__(self, job: Granted, engine: Engine, before: Hand | None, on_stop: Callable[[EmbedHand], None]) -> None:
        super().__init__(job, engine, before)
        self.attached = False
        """Its answer can be written. Until then it can be neither ended nor given back."""
        self.left = 0
        """Inputs whose vectors have not been sent on yet."""
        self.prompt_ns = 0
        self.load_ns = 0
        self._on_stop = on_stop

    @property
    def live(self) -> bool:
        """Whether anybody still wants its vectors from here."""
        return self.why is None and not self.closing

    def stop(self, why: Why) -> None:
        """Stops what is done for it alone; a call that others share goes on without it."""
        before = self.why
        super().stop(why)
        if before is None and self.attached:
            self._on_stop(self)


@dataclass(slots=True, eq=False)
class Desk:
    """A back end as far as embeddings go: a breaker of their own, so that their failures keep no chat away."""

    engine: Engine
    breaker: Breaker
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def able(self) -> bool:
        """Whether a call could go there."""
        engine = self.engine
        return (
            engine.up and not engine.closed and not engine.doubt.is_set() and self.breaker.places(engine.clock()) != 0
        )

    def takes(self, queue: str) -> bool:
        """Whether a request of this queue could."""
        return self.able and self.engine.upstream(queue) is not None and self.engine.covers(queue)

    def recheck_s(self) -> float | None:
        """Seconds after which more may be possible without anybody ringing; None: somebody will."""
        waits = (self.engine.recheck_s(), self.breaker.wait_s(self.engine.clock()))
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)


@dataclass(slots=True)
class EmbeddingPool(Pool):
    """As a pool of chats, with the same services, but desks in place of engines."""

    desks: list[Desk] = field(default_factory=list)

    def wake(self) -> None:
        """Something came in: every desk looks."""
        for desk in self.desks:
            desk.wake.set()

    def grant(self, job: Granted, engine: Engine, on_stop: Callable[[EmbedHand], None]) -> EmbedHand:
        """From here on the job's lease is renewed."""
        before = self.hands.get(job.id)
        if before is not None:
            before.stop("lost")
        self.count_fallback(engine, job.model)
        hand = self.hands[job.id] = EmbedHand(job, engine, before, on_stop)
        if self.cancelled.pop(job.id, None) == job.fence:
            hand.stop("cancel")
        return hand
