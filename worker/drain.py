"""The loop of one back end: pull, window, batch, dispatch.

Nothing is fetched ahead of its turn: what waits stays in the store, in the one order of all workers, until this back
end has a place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from buffer.control import Handed
from buffer.records import Limits, Pulled
from buffer.store import StoreUnavailable
from buffer.timing import Backoff
from policy.window import Hold, can_hold, decide
from worker.dispatch import Dispatch
from worker.engine import Engine
from worker.firsts import report_read, unreported
from worker.hand import Hand
from worker.pool import Pool
from worker.reading import half_read
from worker.recall import recall

LEFT_S = 2.0
"""How often to look while jobs wait and none was to be had: they may be left to others, by a worker that is gone when
the time for that is over."""


def soon(wait_s: float | None) -> float:
    """``wait_s``, but no longer than so."""
    return LEFT_S if wait_s is None else min(LEFT_S, wait_s)


def sooner(wait_s: float | None, other_s: float | None) -> float | None:
    """The shorter of two waits in seconds; None has no end."""
    return min((one for one in (wait_s, other_s) if one is not None), default=None)


class Drain:
    def __init__(self, pool: Pool, engine: Engine, dispatch: Dispatch) -> None:
        self._pool = pool
        self._engine = engine
        self._dispatch = dispatch
        self._window_s = pool.settings.window_ms / 1000
        self._holds = can_hold(pool.settings.window_policy, self._window_s)
        pool.takers[engine.name] = self._take

    async def run(self) -> None:
        """Until the pool stops."""
        await self._pool.drain(self._turn, self._engine.wake)
        self._reads_on()
        if self._pool.standing.ever:
            await self._end_order()

    async def _turn(self) -> float | None:
        """Sends one batch, if there is one, and has prompts read further. Seconds to wait before the next look at most;
        None: until woken."""
        engine, pool = self._engine, self._pool
        engine.quiet = False
        limits = engine.limits()
        want = min(pool.settings.batch_size, engine.places(limits.slots))
        reads = half = self._reads_on()
        if engine.short or limits.segment:
            # What has been read frees credit, for which somebody may wait.
            reads = await report_read(pool, engine) or half
        if want and (others := engine.queues_of_others()) and await self._take_over(others, want, limits):
            return 0
        queues = engine.queues()
        want = want if queues else 0
        window_s, wait_s = 0.0, engine.recheck_s()
        if want and self._holds:
            window_s, hold_s = await self._window(queues, limits.slots)
            if hold_s is not None:
                # Not even a pull: what came in between would go without its window.
                pool.listening.set()
                want, wait_s = 0, hold_s if hold_s else wait_s
        if not self._holds and not engine.running:
            await (pool.standing.keep(engine, queues, limits) if want else pool.standing.take_back(engine.name))
        yields = not want and any(hand.engine is engine and hand.yields for hand in pool.hands.values())
        if not want and not reads and not yields:
            return wait_s
        pulled = await self._ask(queues, want, limits)
        look_in_s = pulled.look_in_us / 1e6 or None
        if half:
            # Whoever has the credit that it waits for may be gone, and nobody tells of that.
            wait_s = soon(wait_s)
        if not want:
            if yields:
                # A person's job that comes now may need its place.
                pool.listening.set()
            return sooner(wait_s, look_in_s)
        await self._send(pulled, window_s)
        if engine.name in pool.standing and not pulled.stands:
            # The store has lost it. Taken back it rings the bell, for which alone the doorbell may wait.
            await pool.standing.take_back(engine.name)
            return 0
        engine.short = len(pulled.jobs) < want and pulled.waiting > 0
        engine.quiet = len(pulled.jobs) < want and pulled.waiting == 0
        if len(pulled.jobs) == want or (engine.short and unreported(pool, engine)):
            return 0
        pool.listening.set()
        return sooner(soon(wait_s) if engine.short else wait_s, look_in_s)

    def _reads_on(self) -> bool:
        """Whether prompts in this worker's hands are half read. While the engine is down none is: they go on
        as a whole, and fail as any job does."""
        hands = half_read(self._pool, self._engine)
        if self._engine.up and not self._pool.stopping:
            return bool(hands)
        for hand in hands:
            hand.may_read(0)
        return False

    async def _window(self, queues: Sequence[str], slots: int) -> tuple[float, float | None]:
        """How long the oldest job has waited in its window, and how long none is to go yet, in seconds; 0: until woken,
        for there is none; None: they may go."""
        seen = await self._pool.lanes.peek(queues, backend=self._engine.name, slots=slots)
        if not seen.waiting:
            return 0.0, 0.0
        window_s = min(self._window_s, max(0.0, (seen.now_us - seen.oldest_arr_us) / 1e6))
        hold = decide(
            self._pool.settings.window_policy,
            window_s=self._window_s,
            batch_size=self._pool.settings.batch_size,
            waiting=seen.waiting,
            oldest_wait_s=window_s,
        )
        return window_s, hold.for_s if isinstance(hold, Hold) else None

    async def _take_over(self, queues: Sequence[str], want: int, limits: Limits) -> bool:
        """Takes what those have just failed that this back end stands in for. False: there was nothing."""
        assert self._engine.stand_in is not None
        names = self._engine.stand_in.names
        pulled = await self._ask(queues, want, limits, names)
        await self._send(pulled, 0.0)
        if not pulled.jobs:
            self._pool.listening.set()
        return bool(pulled.jobs)

    async def _send(self, pulled: Pulled, window_s: float) -> None:
        if pulled.jobs:
            hands = [self._pool.take(job, self._engine) for job in pulled.jobs]
            await self._begin(hands, pulled.bodies, window_s)

    async def _begin(self, hands: Sequence[Hand], known: Mapping[str, bytes], window_s: float) -> None:
        self._pool.telemetry.batch_window.observe(window_s)
        bodies: dict[str, bytes | None] = {**known}
        if missing := [hand.job.id for hand in hands if hand.job.id not in bodies]:
            bodies.update(zip(missing, await self._bodies(missing), strict=True))
        if self._pool.telemetry.spans is not None:
            await self._traces(hands)
        self._dispatch.batch(hands, [bodies[hand.job.id] for hand in hands])

    def _take(self, handed: Handed) -> None:
        """A job that came by the standing order."""
        hand = self._pool.take(handed.job, self._engine)
        if not self._engine.able:
            # It went down, and the order was not taken back yet.
            hand.stop("drain")
        bodies = {handed.job.id: handed.body} if handed.body else {}
        self._dispatch.run(self._begin([hand], bodies, 0.0))

    async def _end_order(self) -> None:
        """What came by it and is not in hand goes back. Without the store, others take it over in time."""
        with suppress(StoreUnavailable):
            await self._pool.standing.take_back(self._engine.name)
            await recall(self._pool, self._engine.name)

    async def _ask(self, queues: Sequence[str], want: int, limits: Limits, left_by: Sequence[str] = ()) -> Pulled:
        engine = self._engine
        goes_on, memory = engine.backend.continues, engine.memory()
        return await self._pool.pull(
            engine.name, queues, want=want, limits=limits, left_by=left_by, goes_on=goes_on, memory=memory
        )

    async def _traces(self, hands: Sequence[Hand]) -> None:
        """Without the store, they go untraced."""
        with suppress(StoreUnavailable):
            traces = await self._pool.lanes.traces([hand.job.id for hand in hands])
            for hand, trace in zip(hands, traces, strict=True):
                hand.trace = trace

    async def _bodies(self, ids: Sequence[str]) -> list[bytes | None]:
        """The jobs are ours by now: whatever the store does, they are not let go of."""
        backoff = Backoff()
        while True:
            try:
                return await self._pool.lanes.body(ids)
            except StoreUnavailable:
                self._pool.away()
                await backoff.wait()
