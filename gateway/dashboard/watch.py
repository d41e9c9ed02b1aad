"""What all who look at the dashboard of this gateway see: read once a second at most, and not at all while nobody
looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import orjson

from buffer.glance import Figures, away, figures, for_admins, glance
from buffer.overview import Overview, read_overview
from buffer.recent import Sums
from buffer.store import Store, StoreUnavailable
from gateway.pools import Pool

FRESH_S = 0.9
PATIENCE_S = 2.0


class Watch:
    def __init__(self, store: Store, pools: Mapping[str, Pool], embedding_pools: Mapping[str, Pool]) -> None:
        self._pools = pools
        self._embedding_pools = embedding_pools
        self._sums = Sums(store)
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._overview: Overview | None = None
        self._figures: Figures | None = None
        self._seen: dict[str, Any] | None = None
        """What the store told the last time that it answered."""
        self._for_all = self._for_admins = b""
        self._about = {"version": version("doublebuffer"), "embedded": store.embedded}

    async def look(self, *, admin: bool) -> bytes:
        """As JSON. What was seen before, and why it is no more than that, while the store is away."""
        if time.monotonic() - self._read_at >= FRESH_S:
            async with self._reading:
                if time.monotonic() - self._read_at >= FRESH_S:
                    await self._look()
                    self._read_at = time.monotonic()
        return self._for_admins if admin else self._for_all

    def id_of(self, ref: str) -> str | None:
        """The id of a job under way that was told of by a part of it."""
        return None if self._overview is None else self._overview.refs.get(ref)

    async def _look(self) -> None:
        told: dict[str, Any]
        try:
            async with asyncio.timeout(PATIENCE_S):
                seen = await read_overview(
                    (pool.lanes for pool in self._pools.values()),
                    (pool.lanes for pool in self._embedding_pools.values()),
                )
                slots = await self._sums.read()
        except StoreUnavailable as error:
            told = away(_sentence(str(error)), time.time(), self._seen)
        except TimeoutError:
            told = away("Redis does not answer in time.", time.time(), self._seen)
        else:
            self._overview = seen
            self._figures = figures(slots, seen.at, self._figures)
            told = self._seen = glance(seen, self._figures)
        told = self._about | told
        self._for_all = orjson.dumps(told)
        more = {} if self._overview is None else for_admins(self._overview)
        self._for_admins = orjson.dumps(told | more)


def _sentence(text: str) -> str:
    text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith(".") else f"{text}."
