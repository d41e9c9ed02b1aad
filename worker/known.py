"""What workers tell of back ends, as this one has heard it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from buffer.load import BackendState

STATE_TTL_S = 15.0
"""How long it counts what was told of a back end."""
MOST_PASSED_S = 5.0
"""As much at most has passed between two times that the store told of them: it may have been away, and nobody could
tell it anything."""


@dataclass(slots=True)
class _Word:
    state: BackendState
    at_s: float


class Known:
    """A store that came back empty, or older, tells of fewer back ends than there are. So each is known for as long as
    the store would have told of it."""

    def __init__(self) -> None:
        self._words: dict[str, _Word] = {}
        self._passed_s = 0.0
        self._heard_at: float | None = None

    def hear(self, told: Sequence[BackendState], now_at: float) -> list[BackendState]:
        """``told``: all that the store tells now. Returns all that are known, by name. ``now_at``: seconds of any
        clock."""
        if self._heard_at is not None:
            self._passed_s += min(now_at - self._heard_at, MOST_PASSED_S)
        self._heard_at = now_at
        for state in told:
            word = self._words.get(state.name)
            if word is None or word.state != state:
                self._words[state.name] = _Word(state, self._passed_s)
        there = {state.name for state in told}
        for name, word in list(self._words.items()):
            if name not in there and self._passed_s - word.at_s >= STATE_TTL_S:
                del self._words[name]
        return [word.state for _, word in sorted(self._words.items())]
