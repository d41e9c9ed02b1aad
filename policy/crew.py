"""How many workers a machine needs. Pure. Instants and spans are in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LACKING_S: Final = 2.0
"""So long jobs have to wait beside free places before another worker is started."""
SETTLING_S: Final = 6.0
"""So long after a start nobody else is started: it takes a worker a second or two until it works."""
IDLE_S: Final = 60.0
"""So long there has to be less to do than there are workers before one of them is taken away."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a back end that is up has to give."""

    free: int
    """Jobs that it could have more, as far as those go that wait."""
    oldest_s: float
    """How long somebody has waited who could go there; 0: nobody waits."""
    full: bool
    """Its memory is so full that somebody may have to wait for it, though there are places."""


def lacks(places: list[Place]) -> bool:
    """Whether somebody waits who could be taken: the engines have room, and no worker has the time."""
    return any(place.free > 0 and place.oldest_s > 1.0 and not place.full for place in places)


@dataclass(slots=True)
class Crew:
    """Between ``least`` and ``most`` workers."""

    least: int
    most: int
    lacking_at: float | None = None
    """Since when jobs wait beside free places."""
    idle_at: float | None = None
    """Since when there is less to do than there are workers."""
    quiet_until: float = 0.0

    def step(self, workers: int, *, lacking: bool, running: int, now_at: float) -> int:
        """1: start one more; -1: take one away; 0: leave it so. ``running``: jobs under way."""
        if workers < self.least:
            return 1
        if not lacking:
            self.lacking_at = None
        elif self.lacking_at is None:
            self.lacking_at = now_at
        if lacking or running >= workers:
            self.idle_at = None
        elif self.idle_at is None:
            self.idle_at = now_at
        if now_at < self.quiet_until:
            return 0
        if self.lacking_at is not None and now_at - self.lacking_at >= LACKING_S and workers < self.most:
            self.lacking_at, self.quiet_until = None, now_at + SETTLING_S
            return 1
        if self.idle_at is not None and now_at - self.idle_at >= IDLE_S and workers > self.least:
            self.idle_at = None
            return -1
        return 0
