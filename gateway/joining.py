"""Idempotency keys: requests that come with the same one are one request, whichever gateway they come to."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from buffer.failures import STOPPING
from buffer.job import End, Failure
from buffer.keys import CLAIMED_S, claimed
from buffer.listening import Listener
from buffer.standing import Standing, read_standing
from buffer.store import Store, StoreUnavailable
from buffer.telemetry import Outcome
from gateway.answering import Answering, Hears
from gateway.call import Call
from gateway.catalog import STORE_AWAY
from gateway.client import Client
from gateway.intake import Order
from gateway.pools import Pool
from gateway.refusal import Refusal
from gateway.relay import Relay
from gateway.sharing import BUSY, LOOK_AGAIN_S, SUBMIT_S, Share, Sharing, answers
from gateway.told import Told, read_told

_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_BAD_KEY = Failure("An Idempotency-Key is 1 to 255 printable ASCII characters without blanks.", 400, "", "")
_OTHER = Failure("This Idempotency-Key has come with another request within the last ten minutes.", 422, "key_reused")


@dataclass(frozen=True, slots=True)
class Claim:
    """What one client asks for under its key."""

    digest: str
    """Of the key and of whoever sent it."""
    request: str
    """Of the request itself."""
    client: str
    det: bool

    @classmethod
    def of(cls, call: Call, owner: str, body: bytes, *, det: bool) -> Claim | None:
        """None: it came without a key. Raises ``Refusal`` where it is none."""
        key = call.headers.get(b"idempotency-key", b"").strip()
        if not key:
            return None
        if not _KEY.fullmatch(key):
            raise Refusal(_BAD_KEY)
        return cls(_digest(owner.encode(), key), _digest(call.path.encode(), body), secrets.token_hex(8), det)


@dataclass(frozen=True, slots=True)
class _Joined:
    """A job that another request made."""

    standing: Standing
    told: Told
    pool: Pool

    @property
    def ids(self) -> list[str]:
        return [self.standing.id, *self.told.more]


class Joining:
    """Carries the answers of requests with a key, over all gateways of a store."""

    def __init__(self, store: Store, pools: Mapping[str, Pool], sharing: Sharing, relay: Relay) -> None:
        self._store = store
        self._pools = pools
        self._sharing = sharing
        self._relay = relay

    async def run(
        self, claim: Claim, orders: Sequence[Order], client: Client, *, hears: Hears | None = None
    ) -> tuple[Outcome | None, bool]:
        """As ``Relay.run``: with the jobs of ``orders``, or with those of the first request that came with this key."""
        try:
            joined = await self._claim(claim, orders[0])
        except StoreUnavailable:
            raise Refusal(STORE_AWAY, "refused") from None
        share = Share(claimed(self._store.prefix, claim.digest), claim.client)
        if joined is not None:
            return await self._join(claim, share, joined, client)
        order, *more = orders
        first = _First(self._sharing, share, order.job.id, claim.det)
        try:
            return await self._relay.run(order, client, more=more, outlives=first, hears=hears)
        except Refusal:
            await self._sharing.leave(share, order.job.id, "failed")
            raise

    async def _claim(self, claim: Claim, order: Order) -> _Joined | None:
        """None: the key is this request's now."""
        instead = ""
        while True:
            reply = await self._store.script(
                "claim",
                keys=[claimed(self._store.prefix, claim.digest)],
                args=[
                    0,
                    order.job.id,
                    order.pool.name,
                    claim.request,
                    claim.client,
                    int(claim.det),
                    CLAIMED_S,
                    instead,
                ],
            )
            status, *found = (part.decode() for part in reply)
            if status == "other":
                raise Refusal(_OTHER)
            if status == "new":
                return None
            id, name, age_us = found
            if id == order.job.id:  # the connection broke, and the store was asked twice
                return None
            pool = self._pools.get(name)
            standing = await read_standing(pool.lanes, id) if pool else None
            if pool is None or (standing is None and int(age_us) > SUBMIT_S * 1e6):
                instead = id
            elif standing is None:  # it is only just being submitted, or was refused
                await asyncio.sleep(LOOK_AGAIN_S)
            elif _is_no_answer(standing) or (told := read_told(standing.told)) is None:
                instead = id
            else:
                return _Joined(standing, told, pool)

    async def _join(self, claim: Claim, share: Share, joined: _Joined, client: Client) -> tuple[Outcome, bool]:
        told, standing, lanes = joined.told, joined.standing, joined.pool.lanes
        listeners: list[Listener] = []
        try:
            found = self._sharing.listen(lanes, joined.ids, whole=not told.chat.stream, started=standing.backend)
            if found is None:
                raise Refusal(BUSY, "refused")
            listeners = found
            now_at = time.perf_counter()
            answer = Answering(standing.id, standing.lane, told.chat, listeners, now_at, told.created, det=claim.det)
            ended = await self._relay.join(answer, client)
        except Refusal:
            await self._sharing.leave(share, standing.id, "left")
            raise
        finally:
            for listener in listeners:
                listener.close()
        if ended is not None:
            return ended
        await self._sharing.left(share, lanes, joined.ids)
        return "cancelled", False


@dataclass(frozen=True, slots=True)
class _First:
    """The request that came first with a key."""

    sharing: Sharing
    share: Share
    id: str
    det: bool

    async def stays(self) -> bool:
        return not await self.sharing.leave(self.share, self.id, "left")

    async def ended(self, end: End) -> None:
        if end.failure is None or end.failure.code != STOPPING.code:
            await self.sharing.leave(self.share, self.id, "answered" if answers(end) else "failed")


def _is_no_answer(standing: Standing) -> bool:
    """It was cancelled, or failed through no fault of the request: the next one begins anew."""
    end = standing.end
    if end is None:
        return standing.cancelling
    return not answers(end)


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(b"%d:" % len(part) + part)
    return found.hexdigest()
