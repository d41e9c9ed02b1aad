"""What all who look at the dashboard of this gateway see: read once a second at most, and not at all while nobody
looks."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from importlib.metadata import version

import orjson

from buffer.lookout import Lookout
from buffer.store import Store
from gateway.pools import Pool

FRESH_S = 0.9
REMEMBERED = 2000
"""Jobs of which the ids are known here by what they were told of by."""


class Watch:
    """``caching``: answers are kept here, though nobody may have asked for one yet."""

    def __init__(
        self, store: Store, pools: Mapping[str, Pool], embedding_pools: Mapping[str, Pool], *, caching: bool
    ) -> None:
        lanes, embeddings = ([pool.lanes for pool in some.values()] for some in (pools, embedding_pools))
        self._lookout = Lookout(store, lanes, embeddings)
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._for_all = self._for_admins = b""
        self._refs: OrderedDict[str, str] = OrderedDict()
        self._about = {"version": version("doublebuffer"), "caching": caching}

    async def look(self, *, admin: bool) -> bytes:
        """As JSON."""
        if time.monotonic() - self._read_at >= FRESH_S:
            async with self._reading:
                if time.monotonic() - self._read_at >= FRESH_S:
                    told = self._about | await self._lookout.look()
                    self._for_all = orjson.dumps(told)
                    self._for_admins = orjson.dumps(told | self._lookout.for_admins())
                    if self._lookout.overview is not None:
                        self._remember(self._lookout.overview.refs)
                    self._read_at = time.monotonic()
        return self._for_admins if admin else self._for_all

    async def id_of(self, ref: str) -> str | None:
        """The id of a job that is under way, or was lately, and was told of by a part of it."""
        if ref not in self._refs:
            # Another process of this gateway may have told of it.
            await self.look(admin=True)
        return self._refs.get(ref)

    def _remember(self, refs: Mapping[str, str]) -> None:
        for ref, id in refs.items():
            self._refs[ref] = id
            self._refs.move_to_end(ref)
        while len(self._refs) > max(REMEMBERED, len(refs)):
            self._refs.popitem(last=False)
