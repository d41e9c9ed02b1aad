"""How often a key may come in: counted in the store, so that all gateways count together."""

from __future__ import annotations

import math

from buffer.job import Failure
from buffer.keys import Keys
from buffer.store import Store, StoreUnavailable
from gateway.auth import Holder
from gateway.catalog import STORE_AWAY

_MINUTE_US = 60_000_000


class Quotas:
    """Rates of keys. They are of no pool, so they are kept under the name of one that always is the same."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._base = Keys(prefix=store.prefix).base

    async def refuses(self, holder: Holder, method: str) -> Failure | None:
        """Why a request with a key may not come in now; None: it may, and has been counted if it is a POST.

        One trip to the store, and none for a key without a rate. What was refused is not counted.
        """
        most = holder.requests_per_minute
        if not most or method != "POST":
            return None
        try:
            wait_us = await self._store.script("quota", keys=[self._base], args=[0, holder.name, most, _MINUTE_US])
        except StoreUnavailable:
            return STORE_AWAY
        if wait_us <= 0:
            return None
        wait_s = math.ceil(wait_us / 1e6)
        reason = f"This key may send {most} requests in a minute, and has; the next may come in {wait_s} s."
        return Failure(reason, 429, "rate_limit_exceeded", retry_after_s=wait_s)
