"""What wakes this worker: new jobs, freed places, and word from gateways. Two blocking reads a pool, and no polling."""

from __future__ import annotations

from buffer.control import Handed
from buffer.job import LANES
from buffer.store import StoreUnavailable
from buffer.timing import Backoff
from worker.pool import Pool

BLOCK_S = 30.0
AT_ONCE = 1000
FIRST = "0-0"


class Doorbell:
    """Reads the lanes' streams from their beginning, so that no submit can fall between a look and a wait. While there
    are standing orders, only the bell: it rings for whatever does not come by them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        keys = pool.lanes.keys
        self._bell = keys.bell
        self._streams = [*(keys.jobs(lane) for lane in LANES), keys.bell]

    async def run(self) -> None:
        """While every drain is busy nobody listens, and submits cost this worker nothing."""
        pool, backoff = self._pool, Backoff()
        read = dict.fromkeys(self._streams, FIRST)
        while True:
            await pool.listening.wait()
            pool.listening.clear()
            try:
                wanted = [self._bell] if pool.standing else self._streams
                news = await pool.lanes.store.read_streams({key: read[key] for key in wanted}, BLOCK_S, AT_ONCE)
            except StoreUnavailable:
                pool.away()
                # It may come back empty, and its ids begin anew.
                read = dict.fromkeys(self._streams, FIRST)
                pool.listening.set()
                await backoff.wait()
                continue
            backoff.reset()
            if not news:
                pool.listening.set()
                continue
            read |= {stream: entries[-1][0] for stream, entries in news}
            pool.wake()


class Controls:
    """Cancel, pause and go, from the gateways of the jobs in hand; and jobs that come by standing orders."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def run(self) -> None:
        pool, backoff = self._pool, Backoff()
        last, drop = FIRST, False
        while True:
            await pool.connected.wait()
            try:
                last, controls = await pool.lanes.controls(pool.worker, last, BLOCK_S, drop=drop)
            except StoreUnavailable:
                pool.away()
                last, drop = FIRST, False
                await backoff.wait()
                continue
            backoff.reset()
            # A job that came by a standing order is a prompt: it stays there no longer than its job's record has it.
            drop = any(isinstance(control, Handed) for control in controls)
            for control in controls:
                pool.told(control)
