"""A gateway's rules for one job's parts: the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.properties.text import ENDS, Folded, fingerprint

Outcome = Literal["took", "old", "stray", "behind", "lost", "end"]
"""``behind``: read the reply key. ``lost``: hand the text on. ``stray``: a part for a job that has ended."""


@dataclass
class Following:
    deliver: Callable[[str], None]
    finish: Callable[[str], None]
    fence: int = 0
    n: int = 0
    text: str = ""
    end: str = ""
    frozen: bool = False
    """Its text has been handed on: nothing more under this fence."""
    seen: tuple[int, int] = (0, 0)
    """The furthest part that has come, taken or not."""
    waits_since_us: int = 0
    """Since when it lacks something; 0: it does not."""

    def part(self, fence: int, n0: int, kind: str, pieces: list[str], data: str) -> Outcome:
        if self.end:
            return "stray" if kind not in ENDS else "old"
        last = n0 + max(len(pieces) - 1, 0)
        if fence < self.fence:
            return "old"
        self.seen = max(self.seen, (fence, last))
        if fence > self.fence:
            return self._above(fence, kind, data)
        if self.frozen or kind in ("start", "snap", "lost", "queued"):
            return "old"
        if n0 > self.n + 1:
            return "behind"
        if kind in ENDS:
            return self._over(kind)
        if last > self.n:
            self._add("".join(pieces[self.n + 1 - n0 :]))
            self.n = last
            return "took"
        return "old"

    def _above(self, fence: int, kind: str, data: str) -> Outcome:
        if kind == "lost":
            self.fence, self.n, self.frozen = fence, 0, True
            return "lost"
        if kind == "start" and data.partition(" ")[0] == fingerprint(self.text):
            self.fence, self.n, self.frozen = fence, 0, False
            return "took"
        if kind in ENDS and kind != "done":
            return self._over(kind)
        return "behind"

    def caught_up(self, folded: Folded) -> bool:
        """Takes what the reply key has beyond the own text. False: nothing."""
        if self.end or self.frozen or not folded.text.startswith(self.text):
            return False
        if not folded.whole:
            if folded.end:
                self._over(folded.end)
            return bool(folded.end)
        if (folded.fence, folded.n) <= (self.fence, self.n):
            return False
        self._add(folded.text[len(self.text) :])
        self.fence, self.n = folded.fence, folded.n
        if folded.end:
            self._over(folded.end)
        return True

    @property
    def level(self) -> bool:
        """It has all that it knows of."""
        return bool(self.end) or (self.fence, self.n) >= self.seen

    def _add(self, more: str) -> None:
        if more:
            self.text += more
            self.deliver(more)

    def _over(self, kind: str) -> Outcome:
        self.end = kind
        self.finish(kind)
        return "end"
