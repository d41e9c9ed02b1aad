"""How fast the jobs of a lane start while some of them wait, and how long one more would. Pure: instants come in by
argument, in seconds of any one clock.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from policy.estimate import Average

UNSEEN_S: Final = 10.0
"""How long a lane refuses, at least, without seeing a start behind another, before it doubts what it goes by."""
ROOM_S: Final = 0.25
"""Who has waited for longer waits for an end, whatever places seem to be free. A start sooner than that, into a free
place, tells how fast places are filled, and not how fast they become free."""
FEW: Final = 5
"""Gaps of which the mean leans on the last, and each is reckoned longer by the mean error."""
MANY: Final = 32
SPREAD: Final = 2.5
"""Mean errors that many gaps together are longer than their mean, times the root of their number."""


def _gaps() -> deque[float]:
    return deque(maxlen=MANY)


@dataclass(slots=True)
class Drain:
    """An hour in which nobody waits says nothing about it."""

    waiting: int = 0
    told_s: float = 0.0
    """What a gap would be by all else that is known; 0: nothing is. It counts as much as ``FEW`` gaps that were seen,
    or as half of those that are looked at."""
    _gap_s: Average = field(default_factory=lambda: Average(weight=0.2))
    _off_s: Average = field(default_factory=lambda: Average(weight=0.2, value=0.0))
    """How far the gaps lie from their mean."""
    _gaps: deque[float] = field(default_factory=_gaps)
    """The last of them."""
    _since_at: float = 0.0
    _refused_at: float | None = None
    """Since when all that could have told something of the gap have been refused."""

    def came(self, now_at: float) -> None:
        if not self.waiting:
            self._since_at = now_at
        self.waiting += 1

    def went(self, now_at: float, *, room: bool = False) -> None:
        """One of them starts. ``room``: in a place that was free."""
        gap_s = now_at - self._since_at
        if self.waiting > 1 and not (room and gap_s < ROOM_S):
            self._believe()
            self._off_s.add(abs(gap_s - (self._gap_s.value or gap_s)))
            self._gap_s.add(gap_s)
            self._gaps.append(gap_s)
            self._refused_at = None
        self._since_at = now_at
        self.waiting -= 1

    def left(self) -> None:
        """One of them will never start."""
        self.waiting -= 1

    def refused(self, now_at: float) -> None:
        """One was not let in for the wait. Where that is so of everybody who would wait behind another, no gap is seen
        any more, and one that was long once, as of an engine that was away, would be believed for ever. So it is
        believed by half when that has gone on for a while.
        """
        if self._refused_at is None:
            self._refused_at = now_at
        elif now_at - self._refused_at >= max(UNSEEN_S, 2 * self.usual_s()):
            self._believe()
            for figure in (self._gap_s, self._off_s):
                figure.value = figure.value / 2 if figure.value is not None else None
            self._refused_at = now_at

    def usual_s(self, alone_s: float = 0.0, ahead: float = 1) -> float:
        """Seconds between two starts, and their error on top; 0 where nothing was seen yet. ``alone_s``: what a
        job takes if they go one by one, for as long as nothing is known of gaps.

        Where many are ``ahead``, one long gap is not to count for each of them: it may have held them all up together,
        and the next will be shorter. So it goes by as many gaps as there are jobs ahead where these are shorter.
        """
        usual_s = self._mean_s(alone_s) + (self._off_s.value or 0.0)
        if ahead <= FEW or not self._gaps:
            return usual_s
        count = min(MANY, math.ceil(ahead))
        gaps = list(self._gaps)[-count:]
        if self.told_s:
            gaps += [self.told_s] * (max(FEW, count // 2) - len(gaps))
        mean_s = sum(gaps) / len(gaps)
        off_s = sum(abs(gap_s - mean_s) for gap_s in gaps) / len(gaps)
        return min(usual_s, mean_s + off_s * SPREAD / math.sqrt(ahead))

    def wait_s(self, ahead: float, now_at: float, alone_s: float = 0.0, free: float = 0.0) -> float:
        """Seconds until the last of ``ahead`` jobs starts, those of the lane that wait and the one in question;
        ``alone_s`` as for ``usual_s``; ``free``: places that seem to be. 0 where nothing was seen yet: a service that
        has not answered anything must not refuse.

        What the present gap has taken beyond the usual is waited for once, not by each of them: an engine that loads a
        model, or a worker that died, holds up all of them together.
        """
        under_way_s = now_at - self._since_at if self.waiting else 0.0
        if under_way_s < ROOM_S:
            ahead -= free
        usual_s = self.usual_s(alone_s)
        if ahead <= 0 or usual_s <= 0:
            return 0.0
        behind = max(0.0, ahead - 1)
        # Nobody is let in because there are more before him.
        rest_s = max(behind * self.usual_s(alone_s, behind), min(behind, FEW) * usual_s)
        return max(usual_s, 2 * under_way_s) + rest_s

    def per_s(self, now_at: float, alone_s: float = 0.0, ahead: float = 1) -> float:
        """On the careful side, so that who is let in finds it so: the mean, its error, and the time that the
        present gap has taken already; arguments as for ``usual_s``. 0 where nothing was seen yet."""
        under_way_s = now_at - self._since_at if self.waiting else 0.0
        gap_s = max(self.usual_s(alone_s, ahead), under_way_s)
        return 1.0 / gap_s if gap_s > 0 else 0.0

    def _mean_s(self, alone_s: float) -> float:
        return self._gap_s.value if self._gap_s.value is not None else self.told_s or alone_s

    def _believe(self) -> None:
        """What was told is gone on from."""
        if self._gap_s.value is None and self.told_s:
            self._gap_s.value = self.told_s
