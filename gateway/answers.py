"""Questions that have been asked before, or are being asked: who gets an answer that is there, who waits for one that
is being made, and who needs a job of its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from buffer.cached import Cached
from buffer.job import Chat
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.telemetry import CacheResult, Outcome, Telemetry
from gateway.answering import Answering, Hears
from gateway.call import Call
from gateway.client import Client
from gateway.dialects.openwebui import task
from gateway.flights import Ahead, First, Flights, Make
from gateway.intake import user_of
from gateway.keeping import Asking, Keeping
from gateway.models import Model
from gateway.pools import Pool
from gateway.question import ask
from gateway.relay import Relay
from gateway.replay import Replay
from gateway.sharing import Share

_NOT_READ = frozenset({b"no-cache", b"max-age=0"})


@dataclass(frozen=True, slots=True)
class Own:
    """A request needs a job of its own."""

    cache: bytes = b""
    """See ``Client.cache``."""
    id: str = ""
    """Of that job, where it is chosen already."""
    hears: Hears | None = None
    first: First | None = None
    """Others may join the job."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer is there."""

    relay: Relay
    cached: Cached
    cache: bytes = b"hit"

    @property
    def lane(self) -> str:
        return self.cached.lane

    async def answer(self, client: Client, chat: Chat, make: Make) -> tuple[Outcome | None, bool]:
        """As ``Relay.run``."""
        del make
        now_at = time.perf_counter()
        told = Answering(secrets.token_hex(16), self.lane, chat, [Replay(self.cached)], now_at, client.created)
        return await self.relay.join(told, client) or ("cancelled", False)


@dataclass(frozen=True, slots=True)
class Joined:
    """Somebody else's job is at it."""

    flights: Flights
    asking: Asking
    ahead: Ahead
    cache: bytes = b"miss"

    @property
    def lane(self) -> str:
        return self.ahead.standing.lane

    async def answer(self, client: Client, chat: Chat, make: Make) -> tuple[Outcome | None, bool]:
        """As ``Relay.run``."""
        return await self.flights.answer(self.asking, self.ahead, client, chat, make)


ALONE = Own()


class Answers:
    def __init__(self, settings: Settings, flights: Flights, telemetry: Telemetry) -> None:
        self._cache = settings.cache
        self._single_flight = settings.single_flight
        self._per_user = settings.cache_per_user
        self._flights = flights
        self._telemetry = telemetry

    @staticmethod
    def wanted(settings: Settings) -> bool:
        """Whether any setting asks for it."""
        return settings.cache or bool(settings.single_flight) or any(record.cache for record in settings.models)

    def asking(self, chats: Sequence[Chat], model: Model, pool: Pool, call: Call) -> Asking | None:
        """None: the answer is for this client alone. Touches nothing here, so that a thread may ask."""
        at = time.perf_counter()
        directives = _directives(call)
        switch = model.record.cache if model.record is not None else None
        keeps = self._cache if switch is None else switch
        fresh = not _NOT_READ.isdisjoint(directives)
        if len(chats) > 1 or b"no-store" in directives or not (keeps or (self._single_flight and not fresh)):
            return None
        question = ask(chats[0], model, user_of(call) if self._per_user else "")
        if question is None:
            return None
        share = Share(self._flights.shelf.flight(question.digest), secrets.token_hex(8))
        return Asking(question, pool, keeps and not fresh, keeps, model.stand_ins, share, at)

    async def look(self, asking: Asking | None, chat: Chat, call: Call, *, alone: bool) -> Own | Found | Joined:
        """``alone``: the client has other ways to its answer, so its job is its own; its answer may be kept."""
        if asking is None:
            return self._own("bypass")
        flies = asking.keeps if self._single_flight is None else self._single_flight
        if alone or not (asking.reads or (flies and not asking.keeps)):
            return self._own("bypass", asking)
        # Nobody is to wait for a job that gives way to all others.
        flies = flies and b"x-doublebuffer-lane" not in call.headers and not task(call.headers, chat)
        id = secrets.token_hex(16) if flies else ""
        found: Cached | Ahead | None
        try:
            if flies:
                found = await self._flights.board(asking, id)
            else:
                found = await self._flights.kept(asking)
        except StoreUnavailable:
            return self._own("bypass")
        if isinstance(found, Cached):
            self._telemetry.cached("hit")
            return Found(self._flights.relay, found)
        if isinstance(found, Ahead):
            self._telemetry.cached("joined")
            return Joined(self._flights, asking, found)
        return self._own("miss" if asking.reads else "bypass", asking, id)

    def _own(self, result: CacheResult, asking: Asking | None = None, id: str = "") -> Own:
        self._telemetry.cached(result)
        if asking is None:
            return Own(result.encode())
        flights = self._flights
        first = First(flights, asking, id) if id else None
        hears = Keeping(flights.shelf, flights.sharing, asking, shared=first is not None)
        return Own(result.encode(), id, hears if first or asking.keeps else None, first)


def _directives(call: Call) -> frozenset[bytes]:
    """What the request's ``Cache-Control`` says."""
    told = call.headers.get(b"cache-control")
    if told is None:
        # What came before it.
        return _NOT_READ if b"no-cache" in call.headers.get(b"pragma", b"").lower() else frozenset()
    return frozenset(part.strip() for part in told.lower().split(b","))
