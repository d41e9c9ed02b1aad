"""What those who look on are told of the lanes; it changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from buffer.records import JobState


@dataclass(frozen=True, slots=True)
class Depth:
    waiting: int
    oldest_wait_us: int


@dataclass(frozen=True, slots=True)
class Peeked:
    waiting: int
    oldest_arr_us: int
    """0: nobody waits."""
    now_us: int


@dataclass(frozen=True, slots=True)
class Load:
    """What a back end carries now, over all workers."""

    jobs: int
    kv: int
    prefill: int
    long: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job stands."""

    state: JobState
    ahead: int
    """Waiting jobs of its model with a lower score."""
    lane: str
    arr_us: int
    backend: str
    fence: int


class Leftover(NamedTuple):
    """A key; ``ttl_s`` -1: without a lifetime."""

    key: str
    type: str
    ttl_s: int
