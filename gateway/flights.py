"""Single flight: those who ask the same at the same time, at whichever gateway, wait for one job."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from buffer.cache import Claim, Flight, Shelf
from buffer.cached import Cached
from buffer.job import Chat, End, Event
from buffer.lanes import Lanes
from buffer.listening import Listener
from buffer.standing import Standing, read_standing
from buffer.store import StoreUnavailable
from buffer.telemetry import Outcome
from gateway.answering import Answering
from gateway.client import Client, finished
from gateway.intake import Order
from gateway.keeping import STOPPED, Asking, Keeping, is_stopping
from gateway.pools import Pool
from gateway.refusal import Refusal
from gateway.relay import Relay
from gateway.replay import Replay
from gateway.sharing import BUSY, LOOK_AGAIN_S, SUBMIT_S, Sharing, answers

_MOST_LOOKS = 2
"""So often a job that has ended is looked at once more: its answer is about to be kept."""


class Make(Protocol):
    async def __call__(self, *, id: str = "", det: bool = False) -> Order:
        """The request's job, not yet sent. ``id``, ``det``: as ``Intake.order``."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A job that another request sent, and that has not ended."""

    standing: Standing
    pool: Pool


class Flights:
    def __init__(self, shelf: Shelf, pools: Mapping[str, Pool], sharing: Sharing, relay: Relay) -> None:
        self.shelf = shelf
        self.sharing = sharing
        self.relay = relay
        self._pools = pools

    async def board(self, asking: Asking, id: str, *, instead: str = "") -> Cached | Ahead | None:
        """The answer; the job to wait for; None: the job ``id`` is to be sent for it. ``instead``: the job that turned
        out to give no answer. Raises ``StoreUnavailable``.
        """
        claim = Claim(id, asking.pool.name, asking.share.client)
        looks = 0
        last: Flight | None = None
        try:
            while True:
                found = await self.shelf.ask(asking.question, claim, reads=asking.reads, instead=instead)
                before, last = last, found if isinstance(found, Flight) else None
                if before is not None and (last is None or last.job != before.job):
                    await self._turn_from(asking, before)
                if not isinstance(found, Flight):
                    return found
                if found.job == id:  # the connection broke, and the store was asked twice
                    return None
                pool = self._pools.get(found.pool)
                standing = await read_standing(pool.lanes, found.job) if pool else None
                if pool is None or (standing is None and found.age_us > SUBMIT_S * 1e6):
                    instead = found.job
                elif standing is None:  # it is only just being sent, or was refused
                    await asyncio.sleep(LOOK_AGAIN_S)
                elif standing.end is None and not standing.cancelling:
                    return Ahead(standing, pool)
                elif looks < _MOST_LOOKS:
                    looks += 1
                    await asyncio.sleep(LOOK_AGAIN_S)
                else:
                    instead = found.job
        except StoreUnavailable:
            if last is not None:
                await self._turn_from(asking, last)
            raise

    async def _turn_from(self, asking: Asking, flight: Flight) -> None:
        """The client was counted there while it looked, and gets its answer elsewhere: after a purge, or since it is
        kept by now. Still counted, it would keep that job going when all others have left.
        """
        pool = self._pools.get(flight.pool) or asking.pool
        await self.sharing.left(asking.share, pool.lanes, [flight.job])

    async def kept(self, asking: Asking) -> Cached | None:
        """The answer, if it is kept. Raises ``StoreUnavailable``."""
        found = await self.shelf.ask(asking.question, None, reads=True)
        return found if isinstance(found, Cached) else None

    async def answer(
        self, asking: Asking, ahead: Ahead, client: Client, chat: Chat, make: Make
    ) -> tuple[Outcome | None, bool]:
        """As ``Relay.run``, with the job of another request."""
        standing, lanes = ahead.standing, ahead.pool.lanes
        joint = _Joint(self, asking, make, whole=not chat.stream)
        if not joint.listen(standing.id, ahead.pool, standing.backend):
            await self.sharing.left(asking.share, lanes, [standing.id])
            return await self.relay.run(await make(), client)
        now_at = time.perf_counter()
        # An id of its own: whoever cancels a request by its id cancels nobody else's.
        answer = Answering(secrets.token_hex(16), standing.lane, chat, [joint], now_at, client.created)
        try:
            ended = await self.relay.join(answer, client)
        finally:
            joint.close()
        if ended is None or ended[0] != "ok":
            await self.sharing.left(asking.share, joint.lanes, [joint.id])
        return ended or ("cancelled", False)


@dataclass(frozen=True, slots=True)
class First:
    """The request that sent the job which others may join."""

    flights: Flights
    asking: Asking
    id: str
    det = False

    async def stays(self) -> bool:
        return not await self.flights.sharing.leave(self.asking.share, self.id, "left")

    async def ended(self, end: End) -> None:
        """Nothing to do: see ``Keeping``."""

    async def refused(self) -> None:
        """It was not sent: the next one may try."""
        await self.flights.sharing.leave(self.asking.share, self.id, "failed")


class _Joint:
    """The answer of a job that another request sent. A ``Source``.

    Where that job fails through no fault of the question, and its client has seen nothing, another is tried once: one
    of those who had joined sends it, and the others join that.
    """

    def __init__(self, flights: Flights, asking: Asking, make: Make, *, whole: bool) -> None:
        self.id = ""
        self._flights = flights
        self._asking = asking
        self._make = make
        self._whole = whole
        self._pool = asking.pool
        self._source: Listener | Replay | None = None
        self._given = False
        self._again = True

    @property
    def lanes(self) -> Lanes:
        return self._pool.lanes

    def listen(self, id: str, pool: Pool, started: str = "") -> bool:
        """Reads the answer of a job from its beginning. False: too many read already."""
        self.close()
        self.id, self._pool = id, pool
        found = self._flights.sharing.listen(pool.lanes, [id], whole=self._whole, started=started)
        if found is None:
            return False
        (self._source,) = found
        return True

    def close(self) -> None:
        if isinstance(self._source, Listener):
            self._source.close()

    @property
    def started(self) -> str | None:
        return self._source.started if self._source else None

    @property
    def started_at(self) -> float | None:
        return self._source.started_at if self._source else None

    @property
    def first_at(self) -> float | None:
        return self._source.first_at if self._source else None

    @property
    def last_at(self) -> float:
        return self._source.last_at if self._source else 0.0

    async def next(self, until_at: float = math.inf) -> list[Event] | End:
        while True:
            assert self._source is not None
            item = await self._source.next(until_at)
            if not isinstance(item, End):
                self._given = True
                return item
            if is_stopping(item):
                return STOPPED
            if self._given or not self._again or answers(item):
                return item
            self._again = False
            # Broken off in the middle, nobody would know at which job the client is counted by then, and one that is
            # just being sent would be taken from those who have joined it.
            if (failed := await finished(self._begin_anew(item))) is not None:
                return failed

    async def _begin_anew(self, end: End) -> End | None:
        """None: there is another source now."""
        id = secrets.token_hex(16)
        try:
            found = await self._flights.board(self._asking, id, instead=self.id)
        except StoreUnavailable:
            return end
        if isinstance(found, Cached):
            self.close()
            self._source = Replay(found)
            return None
        if isinstance(found, Ahead):
            return None if self.listen(found.standing.id, found.pool, found.standing.backend) else _BUSY_END
        self.id, self._pool = id, self._asking.pool
        hears = Keeping(self._flights.shelf, self._flights.sharing, self._asking, shared=True)
        try:
            await self._flights.relay.start(await self._make(id=id, det=True), hears)
        except Refusal as refusal:
            await self._flights.sharing.leave(self._asking.share, id, "failed")
            return End("failed", refusal.failure)
        return None if self.listen(id, self._pool) else _BUSY_END


_BUSY_END = End("failed", BUSY)
