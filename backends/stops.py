"""Pure: ends an answer at a stop text that its engine was not told of, because it takes only a few."""

from __future__ import annotations

from collections.abc import Sequence

from backends.reasoning import held_suffix


class StopScanner:
    """Looks through one answer's text. What may be the beginning of a stop text waits for the next piece."""

    def __init__(self, stops: Sequence[str]) -> None:
        """``stops``: at least one, none of them empty."""
        self._stops = tuple(stops)
        self._buffer = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """The text that may go on, and whether the answer ends there."""
        text = self._buffer + text
        hits = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if hits:
            self._buffer = ""
            return text[: min(hits)], True
        certain = len(text) - held_suffix(text, *self._stops)
        self._buffer = text[certain:]
        return text[:certain], False

    def flush(self) -> str:
        """What was waiting, at the end of the answer."""
        rest, self._buffer = self._buffer, ""
        return rest
