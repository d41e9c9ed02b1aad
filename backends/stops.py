"""Pure: ends an answer at a stop text that its engine was not told of, because it takes only a few, or that it cannot
see whole, because the answer is gone on with in the middle of it."""

from __future__ import annotations

from collections.abc import Sequence

from backends.reasoning import held_suffix
from buffer.job import Chat


def all_stops(chat: Chat) -> list[str]:
    """Those of an answer that is gone on with: one may begin in what was said and end in what is still to come."""
    return [] if "include_stop_str_in_output" in chat.extra else [stop for stop in chat.stop if stop]


class StopScanner:
    """Looks through one answer's text. What may be the beginning of a stop text waits for the next piece."""

    def __init__(self, stops: Sequence[str], *, after: str = "") -> None:
        """``stops``: at least one, none of them empty. ``after``: words of the answer that were sent before."""
        self._stops = tuple(stops)
        longest = max(map(len, self._stops)) - 1
        self._after = after[-longest:] if longest else ""
        self._longest = longest
        self._buffer = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """The text that may go on, and whether the answer ends there."""
        sent = len(self._after)
        text = self._after + self._buffer + text
        # What was sent holds none; one may begin in it.
        hits = [at for stop in self._stops if (at := text.find(stop, max(0, sent - len(stop) + 1))) >= 0]
        if hits:
            self._buffer = ""
            return text[sent : max(sent, min(hits))], True
        certain = max(sent, len(text) - held_suffix(text, *self._stops))
        self._buffer = text[certain:]
        if sent:
            self._after = text[:certain][-self._longest :]
        return text[sent:certain], False

    def flush(self) -> str:
        """What was waiting, at the end of the answer."""
        rest, self._buffer = self._buffer, ""
        return rest
