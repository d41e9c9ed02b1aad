"""The circuit breaker of one back end. Pure: instants come in by argument, in seconds of any one clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BreakerState = Literal["closed", "open", "half-open"]


@dataclass(slots=True)
class Breaker:
    """Closed: jobs go. ``failures`` in a row open it: none go for ``cooldown_s``. Then half open: one goes, and its end
    decides.

    Only what a chat does counts. A look that the engine answers proves that it is there, not that it can generate.
    """

    failures: int
    cooldown_s: float
    _in_row: int = 0
    _last_by: str = ""
    _open_until_at: float | None = None
    _trial: bool = False

    def state(self, now_at: float) -> BreakerState:
        if self._open_until_at is None:
            return "closed"
        return "open" if now_at < self._open_until_at else "half-open"

    def places(self, now_at: float) -> int | None:
        """How many jobs may start now; None: as many as there is room for."""
        if self._open_until_at is None:
            return None
        return 0 if now_at < self._open_until_at or self._trial else 1

    def wait_s(self, now_at: float) -> float | None:
        """Seconds until it lets one through; None: that hangs on no clock."""
        if self._open_until_at is None or now_at >= self._open_until_at:
            return None
        return self._open_until_at - now_at

    def started(self, now_at: float) -> None:
        """A job went to the back end."""
        if self._open_until_at is not None and now_at >= self._open_until_at:
            self._trial = True

    def succeeded(self) -> None:
        self._in_row = 0
        self._last_by = ""
        self._open_until_at = None
        self._trial = False

    def failed(self, now_at: float, *, by: str = "") -> None:
        """``by``: the job that failed, if the fault may be its own; its further attempts count no more.

        While it is open, the failures of jobs that were under way don't keep it open longer.
        """
        if not by or by != self._last_by:
            self._in_row += 1
        self._last_by = by
        state = self.state(now_at)
        if state == "half-open" or (state == "closed" and self._in_row >= self.failures):
            self._open_until_at = now_at + self.cooldown_s
        self._trial = False

    def undecided(self) -> None:
        """A job ended without telling anything of the back end: cancelled, or its own fault."""
        self._trial = False
