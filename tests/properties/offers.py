"""What an offer may grant, and how: P3, P4 and P7 of a job that went to an idle worker as it was submitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from buffer.control import Handed, read_control
from tests.properties.ledger import Violation
from tests.properties.pulls import Asked, Credit
from tests.properties.state import Record, State

Orders = Mapping[tuple[str, str], Asked]
"""Worker, back end → what it would have, as it said last."""


def check_offer(before: State, job: Record, orders: Orders, now_us: int) -> None:
    """P4 and P7 for an offer that found ``before`` and granted ``job``, and P3 for its fence."""
    waiting = sorted(one.id for one in before.jobs.values() if one.st == "waiting" and one.lane != "background")
    if waiting:
        raise Violation(f"P7: {job.id} was granted as it was submitted, before {waiting}")
    if job.lane == "background":
        raise Violation(f"P7: {job.id} is background work, and was granted as it was submitted")
    if load := before.load.get(job.backend):
        raise Violation(f"P4: {job.id} was granted to {job.backend} as it was submitted, beside {sorted(load)}")
    asked = orders.get((job.worker, job.backend))
    if asked is None or job.model not in asked.models:
        raise Violation(
            f"P4: {job.id} was granted to {job.worker} for {job.backend}, which did not ask for {job.model}"
        )
    credit = Credit(asked, before)
    if asked.want < 1 or not credit.fits(job) or not (asked.limits.segment or credit.may_be_read(job)):
        raise Violation(f"P4: {job.id} was granted to {job.backend} as it was submitted, above its limits")
    if job.fence < now_us:
        raise Violation(f"P3: {job.id} was granted at {now_us} under the old fence {job.fence}")


def check_told(job: Record, result: list[Any], last: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
    """P3: its gateway and its worker are told of it under the one fence that it has. ``last``: the worker's last
    word."""
    told = read_control(last[0][1]) if last else None
    if not isinstance(told, Handed) or (told.job.id, told.backend) != (job.id, job.backend):
        raise Violation(f"P9: {job.id} was granted to {job.worker}, which was not told: {told}")
    if not int(result[1]) == told.job.fence == job.fence:
        raise Violation(
            f"P3: {job.id} is at {job.fence}; its gateway was told {result[1]!r}, its worker {told.job.fence}"
        )
