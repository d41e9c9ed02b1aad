"""An answer on its way to its client is kept for others; where others have joined it, they hear that it is over."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from buffer.cache import Shelf
from buffer.cached import Recording
from buffer.failures import STOPPING
from buffer.follower import Follower
from buffer.job import End, Event
from buffer.store import StoreUnavailable
from gateway.intake import Order
from gateway.pools import Pool
from gateway.question import Question
from gateway.sharing import Share, Sharing

STOPPED = End("failed", STOPPING)
"""What a client is told who did not say that it comes back: an id to come back by it has not got."""


def is_stopping(end: End) -> bool:
    """The gateway stops, whatever becomes of the job."""
    return end.failure is not None and end.failure.code == STOPPING.code


@dataclass(frozen=True, slots=True)
class Asking:
    """A question as one client asks it."""

    question: Question
    pool: Pool
    reads: bool
    """A kept answer will do."""
    keeps: bool
    """Its own may be kept."""
    stand_ins: Collection[str]
    """Back ends whose answers are not: they stand in for others."""
    share: Share
    """The client's part in a job that several wait for."""
    at: float
    """When it came, by ``time.perf_counter``."""

    @property
    def age_us(self) -> int:
        return round((time.perf_counter() - self.at) * 1e6)


class Keeping:
    """``shared``: others may join the job."""

    def __init__(self, shelf: Shelf, sharing: Sharing, asking: Asking, *, shared: bool) -> None:
        self._shelf = shelf
        self._sharing = sharing
        self._asking = asking
        self.shared = shared

    def hear(self, order: Order, follower: Follower) -> Heard:
        """See ``Hears``."""
        return Heard(self, order, follower, self._asking.question.n)

    async def ended(self, order: Order, follower: Follower, recording: Recording, end: End) -> None:
        """Before the client hears of it: whoever asks again right then is to find the answer."""
        asking, job = self._asking, order.job
        question, lanes = asking.question, order.pool.lanes
        if is_stopping(end):
            # It goes on for those who have joined it elsewhere.
            if self.shared:
                await self._sharing.left(asking.share, lanes, [job.id])
            return
        data = recording.kept(end, job.lane) if asking.keeps and not self._stood_in(follower) else b""
        age_us = asking.age_us
        with suppress(StoreUnavailable):  # then the next one asks an engine
            if self.shared:
                await self._shelf.land(
                    question, data, age_us=age_us, job=job.id, lanes=lanes, failed=end.kind != "done"
                )
            elif data:
                await self._shelf.keep(question, data, age_us=age_us)

    def _stood_in(self, follower: Follower) -> bool:
        """Whether some of it may be a substitute's: of several tries, any may have been there."""
        stand_ins = self._asking.stand_ins
        return bool(stand_ins) and (follower.tries > 1 or (follower.started or "") in stand_ins)


class Heard:
    """A follower, heard on the way. A ``Source``."""

    def __init__(self, keeping: Keeping, order: Order, follower: Follower, n: int) -> None:
        self._keeping = keeping
        self._order = order
        self._follower = follower
        self._recording = Recording(n)
        self._end: End | None = None
        self._told = False

    @property
    def started(self) -> str | None:
        return self._follower.started

    @property
    def started_at(self) -> float | None:
        return self._follower.started_at

    @property
    def first_at(self) -> float | None:
        return self._follower.first_at

    @property
    def last_at(self) -> float:
        return self._follower.last_at

    async def next(self, until_at: float = math.inf) -> list[Event] | End:
        if self._end is None:
            item = await self._follower.next(until_at)
            if not isinstance(item, End):
                self._recording.add(item)
                return item
            self._end = STOPPED if self._keeping.shared and is_stopping(item) else item
        if not self._told:
            # Whoever is cancelled in here is given the end once more.
            await self._keeping.ended(self._order, self._follower, self._recording, self._end)
            self._told = True
        return self._end
