"""The loop of one back end for embeddings: collect, pull, and begin a call for all that came together."""

from __future__ import annotations

import asyncio

from buffer.records import Limits
from buffer.store import StoreUnavailable
from policy.collect import collect
from policy.window import Hold
from worker.calls import MOST_CALLS, Calls
from worker.desk import Desk, EmbeddingPool, EmbedHand
from worker.drain import soon
from worker.joining import MOST_INPUTS

PULLED_AT_ONCE = 64
"""Jobs of one pull; more would hold up the store's other clients."""
LIMITS = Limits(slots=MOST_CALLS * MOST_INPUTS, kv=MOST_CALLS * MOST_INPUTS)
"""Requests and inputs at one back end over all workers; what is tokens for a chat is inputs here."""


class EmbeddingDrain:
    """Pulls for one back end whenever it has room for a call."""

    def __init__(self, pool: EmbeddingPool, desk: Desk, calls: Calls) -> None:
        self._pool = pool
        self._desk = desk
        self._calls = calls
        self._window_s = pool.settings.window_ms / 1000
        self._waiting = 0
        self._grew_at = 0.0

    async def run(self) -> None:
        """Until the pool stops."""
        await self._pool.drain(self._turn, self._desk.wake)

    async def _turn(self) -> float | None:
        """Begins the calls for what waits. Seconds to wait before the next look at most; None: until woken."""
        pool, desk = self._pool, self._desk
        queues = desk.engine.queues()
        if not queues or not desk.able or not self._calls.room:
            return desk.recheck_s()
        seen = await pool.lanes.peek(queues)
        now_at = desk.engine.clock()
        if seen.waiting > self._waiting:
            self._grew_at = now_at
        self._waiting = seen.waiting
        if not seen.waiting:
            pool.listening.set()
            return desk.recheck_s()
        hold = collect(
            pool.settings.window_policy,
            window_s=self._window_s,
            most=MOST_INPUTS,
            waiting=seen.waiting,
            oldest_wait_s=max(0.0, (seen.now_us - seen.oldest_arr_us) / 1e6),
            quiet_s=now_at - self._grew_at,
            in_flight=self._calls.in_flight,
        )
        if isinstance(hold, Hold):
            if not self._calls.in_flight:
                pool.listening.set()
            return hold.for_s
        hands = await self._pull(queues)
        if hands:
            await self._calls.begin(hands)
            return 0
        pool.listening.set()
        return soon(desk.recheck_s())

    async def _pull(self, queues: list[str]) -> list[EmbedHand]:
        """As many requests as fill a call."""
        pool, desk = self._pool, self._desk
        hands: list[EmbedHand] = []
        inputs = 0
        while inputs < MOST_INPUTS:
            want = min(PULLED_AT_ONCE, MOST_INPUTS - inputs)
            try:
                pulled = await pool.pull(desk.engine.name, queues, want=want, limits=LIMITS)
            except StoreUnavailable:
                if not hands:
                    raise
                break
            hands += [pool.grant(job, desk.engine, self._calls.stopped) for job in pulled.jobs]
            inputs += sum(job.kv for job in pulled.jobs)
            self._waiting = pulled.waiting
            if len(pulled.jobs) < want:
                break
        return hands


def begin_drains(pool: EmbeddingPool, tasks: asyncio.TaskGroup) -> None:
    """A drain for each of the pool's desks."""
    for desk in pool.desks:
        drain = EmbeddingDrain(pool, desk, Calls(pool, desk, tasks))
        tasks.create_task(drain.run(), name=f"embeddings {desk.engine.name}")
