"""Scores and turns: who goes before whom. Pure.

A job's score is fixed when it comes in, so ageing needs no timer: a later job of a preferred lane passes an earlier one
only while its head start (at most ``max_wait_s``) is not used up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SHARES: Final[dict[str, float]] = {"thinking": 0.0, "fast": 1 / 30, "normal": 1 / 4, "slow": 1.0, "background": 1.0}
"""Each lane's offset, as a share of the longest wait."""
PREFILL_WEIGHT: Final = 4.0
"""Seconds that a second of prefill moves a job back: while it is read, the tokens of everybody else come late."""


def offset_s(lane: str, prefill_s: float, max_wait_s: float) -> float:
    """Seconds to add to a job's arrival for its score: 0 to ``max_wait_s``. Raises ``KeyError`` on an unknown lane."""
    return min(max_wait_s, SHARES[lane] * max_wait_s + PREFILL_WEIGHT * max(0.0, prefill_s))


def due_after_s(lane: str, max_wait_s: float) -> float | None:
    """Seconds from arrival after which nobody that came later may go first. None: no such bound (background)."""
    return None if lane == "background" else max_wait_s


@dataclass(slots=True)
class Turns:
    """Virtual token counter of one queue: users take turns by the tokens they were given, not by the requests they
    sent."""

    now: float = 0.0
    """The tag of the job that went last."""
    _next: dict[str, float] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)

    def tag(self, user: str, cost: float) -> float:
        """The start tag of a new job of ``user``; the user's next job comes ``cost`` later.

        Never before that of the user's last one: what was charged too much for comes off the account, but nobody passes
        himself.
        """
        tag = self._last[user] = max(self.now, self._next.get(user, 0.0), self._last.get(user, 0.0))
        self._next[user] = tag + cost
        return tag

    def went(self, tag: float) -> None:
        """A job with ``tag`` was taken. Users who have nothing left to their account are forgotten."""
        if tag > self.now:
            self._next = {user: at for user, at in self._next.items() if at > tag}
            self._last = {user: at for user, at in self._last.items() if at > tag}
        self.now = tag

    def correct(self, user: str, cost_more: float, turn: float) -> None:
        """An answer took ``cost_more`` than was reckoned with (less: negative). ``turn``: the next one of a user who
        has been forgotten meanwhile; kept if it lies ahead."""
        if user in self._next:
            self._next[user] = max(0.0, self._next[user] + cost_more)
        elif turn > self.now:
            self._next[user] = turn
