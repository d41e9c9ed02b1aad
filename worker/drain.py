"""The loop of one back end: pull, window, batch, dispatch.

Nothing is fetched ahead of its turn: what waits stays in the store, in the one order of all workers, until this back
end has a place.
"""

from __future__ import annotations

from collections.abc import Sequence

from buffer.records import Granted
from buffer.store import StoreUnavailable
from policy.window import Hold, can_hold, decide
from worker.backoff import Backoff, wait_for
from worker.dispatch import Dispatch
from worker.engine import Engine
from worker.firsts import first_pieces, report_first_pieces
from worker.hand import Hand
from worker.pool import Pool


class Drain:
    def __init__(self, pool: Pool, engine: Engine, dispatch: Dispatch) -> None:
        self._pool = pool
        self._engine = engine
        self._dispatch = dispatch
        self._window_s = pool.settings.window_ms / 1000
        self._holds = can_hold(pool.settings.window_policy, self._window_s)

    async def run(self) -> None:
        """Until the pool stops. An idle drain waits to be woken; it asks the store for nothing meanwhile."""
        backoff = Backoff()
        while not self._pool.stopping:
            # Cleared before looking, so that whatever comes in while it looks makes it look again.
            self._engine.wake.clear()
            try:
                wait_s = await self._turn() if self._pool.connected.is_set() else None
            except StoreUnavailable:
                self._pool.away()
                await backoff.pause()
                continue
            backoff.worked()
            if wait_s != 0:
                await wait_for(self._engine.wake, wait_s)

    async def _turn(self) -> float | None:
        """Sends one batch, if there is one. Seconds to wait before the next look at most; None: until woken."""
        engine, pool = self._engine, self._pool
        limits = engine.limits()
        want = min(pool.settings.batch_size, engine.places(limits.slots))
        queues = engine.queues()
        if want == 0 or not queues:
            return engine.recheck_s()
        if engine.short:
            await report_first_pieces(pool, engine)
        window_s = 0.0
        if self._holds:
            seen = await pool.lanes.peek(queues)
            window_s = min(self._window_s, max(0.0, (seen.now_us - seen.oldest_arr_us) / 1e6)) if seen.waiting else 0.0
            hold = decide(
                pool.settings.window_policy,
                window_s=self._window_s,
                batch_size=pool.settings.batch_size,
                waiting=seen.waiting,
                oldest_wait_s=window_s,
            )
            if isinstance(hold, Hold):
                pool.listening.set()
                return hold.for_s
        pulled = await pool.lanes.pull(
            pool.worker, engine.name, queues, want=want, limits=limits, lease_s=pool.settings.lease_seconds
        )
        for job in pulled.jobs:
            self._take(job)
        engine.short = len(pulled.jobs) < want and pulled.waiting > 0
        if pulled.jobs:
            pool.telemetry.batch_window.observe(window_s)
            self._dispatch.batch(engine, pulled.jobs, await self._bodies([job.id for job in pulled.jobs]))
        if len(pulled.jobs) == want or (engine.short and first_pieces(pool, engine)):
            return 0
        pool.listening.set()
        return engine.recheck_s()

    def _take(self, job: Granted) -> None:
        """From here on the job's lease is renewed."""
        self._pool.hands[job.id] = Hand(job, self._engine)
        self._pool.replies.attach(job)
        self._engine.started(job.id)

    async def _bodies(self, ids: Sequence[str]) -> list[bytes | None]:
        """The jobs are ours by now: whatever the store does, they are not let go of."""
        backoff = Backoff()
        while True:
            try:
                return await self._pool.lanes.body(ids)
            except StoreUnavailable:
                self._pool.away()
                await backoff.pause()
