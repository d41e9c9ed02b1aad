"""How jobs end that are not simply answered, and how ends are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from buffer.follower import Follower
from buffer.job import End, Failure
from buffer.records import NewJob
from buffer.store import StoreUnavailable
from buffer.telemetry import Outcome
from gateway.pools import Pool


def expire_later(group: asyncio.TaskGroup, pool: Pool, job: NewJob, follower: Follower) -> asyncio.TimerHandle:
    """Whoever pulls a job that is too old ends it; but while all engines are busy, nobody pulls."""
    timeout_s = job.timeout_us / 1e6

    def overdue() -> None:
        if follower.started is None and not follower.closed:
            group.create_task(expire(pool, job.id, timeout_s))

    return asyncio.get_running_loop().call_later(timeout_s, overdue)


class Overdue:
    """Jobs that wait, until they have waited for too long. Of those that may wait equally long, who came first is due
    first: one timer serves them all. ``go_on``: does something beside everything else.
    """

    def __init__(self, go_on: Callable[[Callable[[], Coroutine[Any, Any, object]]], bool]) -> None:
        self._go_on = go_on
        self._waiting: dict[float, dict[str, tuple[float, Pool, Follower]]] = {}
        """Seconds that they may wait → id → when it is due by the loop's clock, where, and whose it is."""

    def add(self, pool: Pool, job: NewJob, follower: Follower) -> None:
        timeout_s = job.timeout_us / 1e6
        alike = self._waiting.get(timeout_s)
        if alike is None:
            alike = self._waiting[timeout_s] = {}
            asyncio.get_running_loop().call_later(timeout_s, self._look, timeout_s)
        alike[job.id] = asyncio.get_running_loop().time() + timeout_s, pool, follower

    def drop(self, job: NewJob) -> None:
        """It waits no more, or nobody for it."""
        if (alike := self._waiting.get(job.timeout_us / 1e6)) is not None:
            alike.pop(job.id, None)

    def _look(self, timeout_s: float) -> None:
        alike, loop = self._waiting[timeout_s], asyncio.get_running_loop()
        for id, (due_at, pool, follower) in list(alike.items()):
            # uvloop's clock tells milliseconds.
            if due_at > loop.time() + 0.001:
                loop.call_at(due_at, self._look, timeout_s)
                return
            del alike[id]
            if follower.started is None and not follower.closed:
                self._go_on(partial(expire, pool, id, timeout_s))
        del self._waiting[timeout_s]


async def expire(pool: Pool, id: str, waited_s: float) -> None:
    """Ends a job that has not started in time; its client is told as of any other end."""
    failure = Failure(f"The request waited {waited_s:g} s without its turn coming.", 503, "queue_timeout")
    with suppress(StoreUnavailable):  # the inbox sees to the jobs of a store that is away
        await pool.lanes.cancel(id, "expired", End("expired", failure))


def outcome_of(end: End) -> Outcome:
    """How metrics count an end."""
    if end.kind == "done":
        return "ok"
    if end.kind != "failed":
        return end.kind
    client_error = end.failure is not None and 400 <= end.failure.status < 500 and end.failure.status != 429
    return "client_error" if client_error else "backend_error"
