"""One look at everything, and what was seen before while the store is away: for the dashboard and for ``top``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from buffer.access import Store
from buffer.glance import Figures, away, figures, for_admins, glance
from buffer.lanes import Lanes
from buffer.overview import Overview
from buffer.recent import Sums
from buffer.survey import read_overview
from buffer.trouble import SILENT, StoreUnavailable

PATIENCE_S = 2.0


class Lookout:
    """``pools``, ``embedding_pools``: all that there are."""

    def __init__(self, store: Store, pools: Sequence[Lanes], embedding_pools: Sequence[Lanes]) -> None:
        self._pools = pools
        self._embedding_pools = embedding_pools
        self._sums = Sums(store)
        self._figures: Figures | None = None
        self._seen: dict[str, Any] | None = None
        self.overview: Overview | None = None
        """What the store told the last time that it answered."""

    async def look(self) -> dict[str, Any]:
        """What everybody may see. While the store is away, what was seen before, and why it is no more than that."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                seen = await read_overview(self._pools, self._embedding_pools)
                slots = await self._sums.read()
        except StoreUnavailable as error:
            return away(_sentence(str(error)), time.time(), self._seen)
        except TimeoutError:
            return away(SILENT.text, time.time(), self._seen)
        self.overview = seen
        self._figures = figures(slots, seen.at, self._figures)
        self._seen = glance(seen, self._figures)
        return self._seen

    def for_admins(self) -> dict[str, Any]:
        """What admins see beside it."""
        return {} if self.overview is None else for_admins(self.overview)


def _sentence(text: str) -> str:
    text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith(".") else f"{text}."
