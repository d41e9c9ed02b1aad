"""When a spare back end is started, and when it is stopped. Pure.

One worker decides about a spare at a time. Again and again it puts together what it sees, and ``step`` tells how the
spare stands from then on, and what is to be done about it now. Instants and spans are in seconds, of a wall clock that
several workers share more or less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from policy.estimate import predicted_wait_s

Phase = Literal["stopped", "starting", "up", "closing", "stopping", "failed"]
Deed = Literal["start", "stop"]

CLOSING_S: Final = 3.0
"""For so long it takes nothing new before it is stopped: all workers hear of that within a second or so."""
STOPPING_S: Final = 120.0
"""One that still answers so long after it was to stop runs on."""
SILENT_S: Final = 60.0
"""One that has not answered for so long is given up, though nobody saw it end."""
GROWN_UP_S: Final = 60.0
"""One that has run for so long was started well."""
AGAIN_S: Final = (5.0, 15.0, 60.0, 300.0)
"""Pauses after a start that failed; the last one holds for all further."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What its operator says."""

    start_above_s: float
    idle_stop_s: float
    start_timeout_s: float
    own_process: bool
    """It is a process of the worker that started it: nobody else can stop it, and it ends with that worker."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Of one of its models."""

    waiting: int
    oldest_s: float
    """How long the one that came first has waited."""
    places: int
    """Jobs that other back ends which are up take of it side by side; 0: there are none."""
    job_s: float
    """How long one job takes there."""

    @property
    def wait_s(self) -> float:
        """The predicted wait of who comes now, and no less than somebody has waited already."""
        if not self.waiting or not self.places or self.job_s <= 0:
            return self.oldest_s if self.waiting else 0.0
        return max(self.oldest_s, predicted_wait_s(self.waiting + 1, self.places / self.job_s))


@dataclass(frozen=True, slots=True)
class Seen:
    """What the worker sees now."""

    up: bool
    """It answers."""
    work: int
    """Jobs that it has, over all workers."""
    queues: Sequence[Queue]
    others_first: bool = False
    """Another spare with one of these models is starting, or is to be started before this one."""
    here: bool = False
    """Its process is this worker's, and runs."""
    failure: str = ""
    """One sentence: why what was done last came to nothing."""
    acting: bool = False
    """What was to be done last is not done yet."""

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self.queues)


@dataclass(frozen=True, slots=True)
class Stand:
    """How a spare stands; kept in the store, for whoever decides next."""

    phase: Phase = "stopped"
    since_at: float = 0.0
    tries: int = 0
    """Starts in a row that failed."""
    again_at: float = 0.0
    """After a failure: when it may be tried again."""
    busy_at: float = 0.0
    """When it last had work, or was wanted."""
    seen_at: float = 0.0
    """When it last answered."""
    error: str = ""
    """One sentence: what went wrong last. Empty: nothing has since it last ran well."""


Step = tuple[Stand, Deed | None]


def needed(seen: Seen, terms: Terms) -> bool:
    """Whether it should be started for those who wait."""
    if seen.others_first:
        return False
    return any(queue.waiting and (not queue.places or queue.wait_s > terms.start_above_s) for queue in seen.queues)


def step(stand: Stand, seen: Seen, terms: Terms, now_at: float) -> Step:
    """How it stands now, and what to do."""
    if seen.work or seen.waiting:
        stand = replace(stand, busy_at=now_at)
    if seen.up:
        stand = replace(stand, seen_at=now_at)
    match stand.phase:
        case "stopped" | "failed":
            return _resting(stand, seen, terms, now_at)
        case "starting":
            return _starting(stand, seen, terms, now_at)
        case "up":
            return _running(stand, seen, terms, now_at)
        case "closing":
            return _closing(stand, seen, now_at)
        case "stopping":
            return _stopping(stand, seen, now_at)


def _go(stand: Stand, phase: Phase, now_at: float) -> Stand:
    return replace(stand, phase=phase, since_at=now_at)


def _resting(stand: Stand, seen: Seen, terms: Terms, now_at: float) -> Step:
    if seen.up:
        # Somebody started it by hand.
        return replace(_go(stand, "up", now_at), busy_at=now_at), None
    if terms.own_process and seen.here and not seen.acting:
        # It is under way: the store has forgotten that.
        return _go(stand, "starting", now_at), None
    if now_at < stand.again_at:
        return stand, None
    if stand.phase == "failed":
        stand = _go(stand, "stopped", now_at)
    if not seen.acting and needed(seen, terms):
        return _go(stand, "starting", now_at), "start"
    return stand, None


def _starting(stand: Stand, seen: Seen, terms: Terms, now_at: float) -> Step:
    if seen.up:
        return replace(_go(stand, "up", now_at), busy_at=now_at), None
    if seen.failure:
        return _failed(stand, seen.failure, now_at), "stop"
    if terms.own_process and not seen.here and not seen.acting:
        # Who started it is gone, and it with him.
        return _go(stand, "stopped", now_at), None
    if now_at - stand.since_at > terms.start_timeout_s:
        return _failed(stand, f"It has not answered {terms.start_timeout_s:g} s after its start.", now_at), "stop"
    return stand, None


def _running(stand: Stand, seen: Seen, terms: Terms, now_at: float) -> Step:
    if not seen.up:
        if terms.own_process and not seen.here:
            # Without a word of how, who started it is gone, and it with him.
            return _lost(stand, seen.failure, now_at) if seen.failure else _go(stand, "stopped", now_at), None
        if now_at - stand.seen_at > SILENT_S:
            return _lost(stand, f"It has not answered for {SILENT_S:g} s.", now_at), "stop"
        return stand, None
    if stand.tries and now_at - stand.since_at > GROWN_UP_S:
        stand = replace(stand, tries=0, error="")
    if terms.own_process and not seen.here:
        # Nobody can stop it but whoever started it.
        return stand, None
    if not seen.work and not seen.waiting and now_at - stand.busy_at > terms.idle_stop_s:
        return _go(stand, "closing", now_at), None
    return stand, None


def _closing(stand: Stand, seen: Seen, now_at: float) -> Step:
    if seen.work or seen.waiting:
        return _go(stand, "up", now_at), None
    if now_at - stand.since_at < CLOSING_S:
        return stand, None
    return _go(stand, "stopping", now_at), "stop"


def _stopping(stand: Stand, seen: Seen, now_at: float) -> Step:
    if seen.acting:
        return stand, None
    if not seen.up:
        return _go(replace(stand, error=seen.failure), "stopped", now_at), None
    if seen.failure or now_at - stand.since_at > STOPPING_S:
        error = seen.failure or f"It still answers {STOPPING_S:g} s after it was to stop."
        return replace(_go(stand, "up", now_at), busy_at=now_at, error=error), None
    return stand, None


def _failed(stand: Stand, error: str, now_at: float) -> Stand:
    pause_s = AGAIN_S[min(stand.tries, len(AGAIN_S) - 1)]
    return replace(_go(stand, "failed", now_at), tries=stand.tries + 1, again_at=now_at + pause_s, error=error)


def _lost(stand: Stand, error: str, now_at: float) -> Stand:
    """It ran, and does no more. One that ran for a while may be started again at once."""
    if now_at - stand.since_at > GROWN_UP_S:
        return _go(replace(stand, tries=0, again_at=0.0, error=error), "stopped", now_at)
    return _failed(stand, error, now_at)
