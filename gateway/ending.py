"""How jobs end that are not simply answered, and how ends are counted."""

from __future__ import annotations

import asyncio
from contextlib import suppress

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
