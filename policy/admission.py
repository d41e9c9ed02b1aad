"""Accept or refuse, at the door. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from policy.estimate import retry_after_s


@dataclass(frozen=True, slots=True)
class Accept:
    """It may come in."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It may not, for now."""

    status: Literal[429, 503]
    """429: this key or user is over its share; 503: the whole service is full."""
    retry_after_s: int
    why: str
    """The first half of a sentence for a person."""

    @property
    def reason(self) -> str:
        """The sentence. It says what ``Retry-After`` does."""
        return f"{self.why}; try again in {self.retry_after_s} s."

    def later(self, retry_after_s: int) -> Refuse:
        """The same, but to come back then."""
        return replace(self, retry_after_s=retry_after_s)


ACCEPT: Final = Accept()


def refuse_wait_s(lane: str, setting: float | Mapping[str, float]) -> float | None:
    """The longest predicted wait for ``lane``; None: the setting names other lanes only, and this one is never refused
    for it."""
    if isinstance(setting, Mapping):
        return setting.get(lane)
    return setting


def admit(
    lane: str,
    *,
    waiting: int,
    queue_limit: int,
    predicted_wait_s: float,
    refuse_wait: float | Mapping[str, float],
    drain_rate: float,
) -> Accept | Refuse:
    """``waiting`` and ``drain_rate`` (jobs a second) are of the whole service; ``predicted_wait_s`` is of this job."""
    if waiting >= queue_limit:
        return queue_full(waiting, queue_limit, drain_rate)
    longest_s = refuse_wait_s(lane, refuse_wait)
    if longest_s is not None and predicted_wait_s > longest_s:
        over = predicted_wait_s - longest_s
        if drain_rate > 0:
            # A place becomes free when a job starts, and not in between.
            over = math.ceil(over * drain_rate) / drain_rate
        return Refuse(
            503,
            max(1, min(120, math.ceil(over))),
            f"The expected wait ({_rounded_up(predicted_wait_s):.10g} s) is over the {longest_s:.10g} s allowed",
        )
    return ACCEPT


def over_share(mine: int, users: int, queue_limit: int, drain_rate: float) -> Refuse:
    """The refusal of one who has ``mine`` jobs in a full queue, more than its limit over the ``users`` who wait: come
    back when half of that part is left of them, at its part of the rate."""
    part = queue_limit / max(1, users)
    return Refuse(
        429,
        retry_after_s(max(1.0, mine - part / 2), drain_rate / max(1, users)),
        f"The queue is full, and {mine} of those that wait are yours",
    )


def queue_full(waiting: int, queue_limit: int, drain_rate: float) -> Refuse:
    """The refusal of a queue with ``waiting`` jobs, at or over its limit: come back when half of it is gone, or all the
    refused would come back for the first free place."""
    return Refuse(
        503,
        retry_after_s(max(1.0, waiting - queue_limit / 2), drain_rate),
        f"The queue is full ({queue_limit} requests are waiting)",
    )


def _rounded_up(seconds: float) -> float:
    """For people: short waits to a tenth. Up, so that what is over a bound is also seen to be."""
    return math.ceil(seconds * 10) / 10 if seconds < 10 else math.ceil(seconds)
