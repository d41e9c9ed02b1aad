"""Which of all lines may enter the lanes now: a few at a time, so that people find room and the store stays small.

At most twice as many as there are places that people leave free: those that run, and as many again that wait for the
next place. The rest is in the files.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from buffer.crowding import crowding
from buffer.store import StoreUnavailable
from buffer.timing import wait_for
from gateway.catalog import Catalog
from gateway.models import Model
from gateway.pools import Pool

AHEAD = 2
"""Lines for each free place."""
FRESH_S = 0.1
"""How long what was seen of the places holds,"""
LOOK_AGAIN_S = 0.2
"""and how often those are looked at that are all taken."""
_BLIND = 2
"""Lines that may try where nothing is known to serve their model: what is wrong they are told on the way."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A line's right to be in the lanes. Has to be given back."""

    queue: str
    owner: str
    batch: str


@dataclass(slots=True)
class _Waiter:
    owner: str
    batch: str
    number: int
    let_in: asyncio.Future[Ticket]


@dataclass(slots=True)
class _Door:
    """Of one model, for chats or for embeddings."""

    name: str
    embeds: bool
    waiters: list[_Waiter] = field(default_factory=list)
    inside: int = 0
    allowed: int = 0
    looked_at: float = float("-inf")


class Entry:
    """``run`` has to run beside."""

    def __init__(self, catalog: Catalog, pools: Mapping[str, Pool], embedding_pools: Mapping[str, Pool]) -> None:
        self._catalog = catalog
        self._pools = pools
        self._embedding_pools = embedding_pools
        self._doors: dict[str, _Door] = {}
        self._of_owner: Counter[str] = Counter()
        self._of_batch: Counter[str] = Counter()
        self._wake = asyncio.Event()
        self._came = 0
        self.runners = 1
        """Processes that share the places."""

    async def enter(self, model: str, *, embeds: bool, owner: str, batch: str) -> Ticket:
        """Waits for its turn: that of the owner, then of the batch, with the fewest lines in the lanes."""
        queue = f"{'embed' if embeds else 'chat'}:{model}"
        door = self._doors.setdefault(queue, _Door(model, embeds))
        waiter = _Waiter(owner, batch, self._came, asyncio.get_running_loop().create_future())
        self._came += 1
        door.waiters.append(waiter)
        self._wake.set()
        try:
            return await waiter.let_in
        except asyncio.CancelledError:
            if waiter in door.waiters:
                door.waiters.remove(waiter)
            elif waiter.let_in.done() and not waiter.let_in.cancelled():
                self.leave(waiter.let_in.result())
            raise

    def leave(self, ticket: Ticket) -> None:
        """The line is over, or waits outside for another try."""
        self._doors[ticket.queue].inside -= 1
        for counter, name in ((self._of_owner, ticket.owner), (self._of_batch, ticket.batch)):
            counter[name] -= 1
            if not counter[name]:
                del counter[name]
        self._wake.set()

    async def run(self) -> None:
        """Lets lines in, until cancelled."""
        while True:
            self._wake.clear()
            full = False
            for queue, door in list(self._doors.items()):
                if door.waiters:
                    await self._let_in(queue, door)
                    full = full or bool(door.waiters)
                elif not door.inside:
                    del self._doors[queue]
            await wait_for(self._wake, LOOK_AGAIN_S if full else None)

    async def _let_in(self, queue: str, door: _Door) -> None:
        now_at = asyncio.get_running_loop().time()
        if now_at - door.looked_at >= FRESH_S:
            door.allowed = await self._allowed(door)
            door.looked_at = asyncio.get_running_loop().time()
        while door.waiters and door.inside < door.allowed:
            waiter = min(
                door.waiters, key=lambda one: (self._of_owner[one.owner], self._of_batch[one.batch], one.number)
            )
            door.waiters.remove(waiter)
            if waiter.let_in.done():
                continue
            door.inside += 1
            self._of_owner[waiter.owner] += 1
            self._of_batch[waiter.batch] += 1
            waiter.let_in.set_result(Ticket(queue, waiter.owner, waiter.batch))

    async def _allowed(self, door: _Door) -> int:
        """How many lines of ours may be in the lanes now."""
        try:
            model = (await self._catalog.read()).find(door.name)
            if model is None:
                return _BLIND
            places = _places(model)
            if not places:
                return _BLIND
            pool = (self._embedding_pools if door.embeds else self._pools)[model.pool]
            people = await crowding(pool.lanes, model.queue, list(places))
        except StoreUnavailable:
            return 0
        free = max(0, sum(places.values()) - people)
        return AHEAD * free // self.runners


def _places(model: Model) -> dict[str, int]:
    """How many jobs each back end takes that does the model's for itself and is up."""
    return {
        offer.state.name: max(1, offer.state.limit or offer.state.slots)
        for offer in model.offers
        if offer.state.up and not offer.state.breaker_open and offer.state.name not in model.stand_ins
    }
