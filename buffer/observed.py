"""Histograms that are told of much at a time. To tell one of one thing costs a search for its bucket and two locks;
each piece of an answer is one, and nobody looks more often than every few seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import repeat

from prometheus_client import Histogram

from buffer.recent import Recent, step_of


class Observed:
    """One child of a histogram. What is observed is in it after ``tell``."""

    __slots__ = ("_child", "_seen", "observe")

    def __init__(self, child: Histogram) -> None:
        self._child = child
        self._seen: list[float] = []
        self.observe: Callable[[float], None] = self._seen.append
        """Takes seconds, or what else the histogram is of. From any thread."""

    def at_once(self) -> None:
        """From here on it is in it without ``tell``."""
        self.observe = self._observe

    def _observe(self, amount: float) -> None:
        self._seen.append(amount)
        self.tell()

    def tell(self) -> None:
        if count := len(self._seen):
            amounts = self._seen[:count]
            del self._seen[:count]
            self._add(amounts)

    def _add(self, amounts: Sequence[float]) -> None:
        # As ``Histogram.observe`` does it for one; a test holds the two against each other.
        child, bounds = self._child, self._child._upper_bounds
        for at, count in Counter(map(bisect_left, repeat(bounds), amounts)).items():
            child._buckets[at].inc(count)
        child._sum.inc(sum(amounts))


class Noted(Observed):
    """One whose observations are also counted for those who look on."""

    __slots__ = ("_name", "_recent", "_sizes")

    def __init__(self, child: Histogram, recent: Recent, name: str, *, sizes: bool = False) -> None:
        """``sizes``: it is of how many, and not of seconds."""
        super().__init__(child)
        self._recent = recent
        self._name = name
        self._sizes = sizes

    def _add(self, amounts: Sequence[float]) -> None:
        super()._add(amounts)
        for step, count in Counter(map(int if self._sizes else step_of, amounts)).items():
            self._recent.add(f"{self._name}:{step}", count)
