"""What the scripts of gateways and of the reaper answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from buffer.records import JobState


class Reaped(NamedTuple):
    taken_over: int
    expired: int
    """Leases that had run out, of whatever kind."""
    dead: int
    freed: int
    """Places at back ends that became free."""


@dataclass(frozen=True, slots=True)
class Requeued:
    status: Literal["queued", "waiting", "running", "held", "done", "gone"]
    """``queued``: done as asked. Else the state of the job, whose fence is another by now."""
    fence: int


@dataclass(frozen=True, slots=True)
class Watched:
    inbox_there: bool
    states: list[tuple[JobState, int]]
    """State and fence of each job asked for, in that order."""


CancelResult = Literal["gone", "done", "cancelled", "running"]
