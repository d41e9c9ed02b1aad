"""How much memory processes and Redis take over time, and whether it stays level. Reading is Linux's ``/proc``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

MOST_GROWTH = 0.05
WINDOW = 1 / 15
"""Of the run's time: what a mean is taken over."""


def memory_of(pid: int) -> tuple[int, int]:
    """RSS and PSS of a process, KiB."""
    rows = (row.split() for row in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:])
    told = {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) == 3}
    return told["Rss"], told["Pss"]


@dataclass(slots=True)
class Curve:
    """One measure of one process, KiB."""

    name: str
    points: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the beginning, value."""

    def around(self, at_s: float, whole_s: float) -> float:
        """The median of the window that ends there."""
        some = [value for when, value in self.points if at_s - WINDOW * whole_s <= when <= at_s]
        return statistics.median(some) if some else 0.0

    def growth(self, whole_s: float) -> float:
        """From half the time to the end, as a part of the value at half the time."""
        half = self.around(whole_s / 2, whole_s)
        return self.around(whole_s, whole_s) / half - 1 if half else 0.0


def level(curves: Sequence[Curve], whole_s: float) -> bool:
    """Whether none has grown by more than ``MOST_GROWTH``; what shrinks is no leak."""
    return all(curve.growth(whole_s) <= MOST_GROWTH for curve in curves)
