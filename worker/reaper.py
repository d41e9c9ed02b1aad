"""Expired leases: jobs of workers that fell silent go to their gateways, which hand them on."""

from __future__ import annotations

import logging

from worker.pool import Pool

log = logging.getLogger("doublebuffer.worker")

HOLD_S = 5.0
"""How long a gateway has to hand a job on before its client counts as gone with it."""


class Reaper:
    """Every worker reaps; the store lets one of them do it at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def run(self) -> None:
        await self._pool.keep_on(self._reap, every_s=self._pool.settings.lease_seconds / 4)

    async def _reap(self) -> None:
        reaped = await self._pool.lanes.reap(self._pool.settings.lease_seconds, HOLD_S)
        if reaped.taken_over:
            self._pool.telemetry.taken_over.inc(reaped.taken_over)
            log.warning("%d jobs of a silent worker are taken over", reaped.taken_over)
        if reaped.dead:
            self._pool.telemetry.dead_letters.inc(reaped.dead)
            log.warning("%d jobs went to the dead letters", reaped.dead)
