"""What this worker would have for its idle back ends, left in the store: a job that one of them could begin at once
comes as it is submitted, without this worker being woken to ask for it.

Two ways less between a client and an idle engine. Where anything runs at a back end, the order is left alone, and the
worker pulls: so batches form.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from buffer.lanes import Lanes
from buffer.records import Limits
from buffer.store import StoreUnavailable
from buffer.wire import Wire
from worker.engine import Engine

AGAIN_S, MOST_AGAIN_S = 10.0, 600.0
"""Between two tries to be found; twice as long after each that failed."""


class _Order(NamedTuple):
    queues: tuple[str, ...]
    segment: int
    pause_us: int
    swaps: bool


_UNSURE = _Order((), -1, -1, swaps=False)
"""What came of the last word on it is not known."""


class Standing:
    """The standing orders of a worker, by back end. ``keep`` and ``take_back`` raise ``StoreUnavailable``."""

    def __init__(self, lanes: Lanes, worker: str, lease_s: float) -> None:
        self._lanes = lanes
        self._worker = worker
        self._lease_s = lease_s
        self._orders: dict[str, _Order] = {}
        self._heard: Wire | None = None
        """While it is open, scripts can see that this worker lives."""
        self._able = not lanes.store.embedded
        self._again_at, self._again_s = 0.0, AGAIN_S
        self.ever = False
        """Jobs may have come by one."""

    def __bool__(self) -> bool:
        """There are any for sure: what comes in rings the bell, unless it comes by one of them."""
        return any(order is not _UNSURE for order in self._orders.values())

    def __contains__(self, backend: str) -> bool:
        """There may be one."""
        return backend in self._orders

    async def keep(self, engine: Engine, queues: Sequence[str], limits: Limits) -> None:
        """Of a back end on which nothing of ours runs: leaves the order, where there is none or another."""
        order = _order(engine, queues, limits)
        if self._orders.get(engine.name) == order and not self._unheard:
            return
        if self._unheard and not await self._attend():
            await self.take_back(engine.name)
            return
        self._orders[engine.name], self.ever = _UNSURE, True
        await self._lanes.stand(
            self._worker, engine.name, queues, limits=limits, lease_s=self._lease_s, swaps=order.swaps
        )
        self._orders[engine.name] = order

    async def _attend(self) -> bool:
        now_at = time.monotonic()
        if not self._able or now_at < self._again_at:
            return False
        self._again_at = now_at + self._again_s
        self._again_s = min(2 * self._again_s, MOST_AGAIN_S)
        with suppress(StoreUnavailable):
            self._heard = await self._lanes.store.attend(self._lanes.keys.ctl(self._worker))
            self._able, self._again_s = self._heard is not None, AGAIN_S
        return not self._unheard

    async def take_back(self, backend: str) -> None:
        if backend in self._orders:
            self._orders[backend] = _UNSURE
            await self._lanes.unstand(self._worker, backend)
            del self._orders[backend]

    def differs(self, engine: Engine) -> bool:
        """The order is no longer what it should be, or nobody would find this worker there."""
        order = self._orders.get(engine.name)
        if order is None or engine.running:
            return False
        return self._unheard or order != _order(engine, engine.queues(), engine.limits())

    @property
    def _unheard(self) -> bool:
        return self._heard is None or self._heard.closed


def _order(engine: Engine, queues: Sequence[str], limits: Limits) -> _Order:
    return _Order(tuple(queues), limits.segment, limits.pause_us, engine.memory() is not None)
