"""How jobs end that are not simply answered, and how ends are counted."""

from __future__ import annotations

from contextlib import suppress

from buffer.job import End, Failure
from buffer.store import StoreUnavailable
from buffer.telemetry import Outcome
from gateway.pools import Pool


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
