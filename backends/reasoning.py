"""Pure: tells thinking from answer in text where the engine left the tags in.

However the text is cut into pieces, the parts join to the same: what may be the beginning of a tag waits for more.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

TOOL_TAG = "<tool_call>"
"""A model may call a tool without closing its thinking; the call ends it."""

_State = Literal["look", "opened", "inside", "closed", "done"]


class Part(NamedTuple):
    thinking: bool
    text: str


def held_suffix(text: str, *tags: str) -> int:
    """The length of the longest end of ``text`` that one of ``tags`` begins with, whole tags not counted."""
    for length in range(min(len(text), max(map(len, tags)) - 1), 0, -1):
        end = text[-length:]
        if any(len(tag) > length and tag.startswith(end) for tag in tags):
            return length
    return 0


class Splitter:
    """Splits one answer. Tags inside the answer proper are text like any other."""

    def __init__(self, open_tag: str = "<think>", close_tag: str = "</think>", *, inside: bool = False) -> None:
        """``inside``: the prompt has opened the thinking, so the answer shows the close tag only."""
        self._open = open_tag
        self._close = close_tag
        self._state: _State = "opened" if inside else "look"
        self._repeat = True
        self._buffer = ""

    @property
    def done(self) -> bool:
        """All that comes from here on is the answer."""
        return self._state == "done" and not self._buffer

    def feed(self, text: str) -> list[Part]:
        """The parts that are certain by now; none of them is empty."""
        if self._state == "done":
            return [Part(False, text)] if text else []
        self._buffer += text
        parts: list[Part] = []
        while self._step(parts):
            pass
        return parts

    def flush(self) -> list[Part]:
        """What was waiting, at the end of the answer."""
        rest, self._buffer = self._buffer, ""
        thinking = self._state in ("opened", "inside")
        if self._state == "closed" or (self._state == "opened" and not rest.strip()):
            rest = ""
        self._state = "done"
        return [Part(thinking, rest)] if rest else []

    def _step(self, parts: list[Part]) -> bool:
        """One state's work; True if the next state has something to do."""
        match self._state:
            case "look":
                return self._look()
            case "opened":
                return self._opened()
            case "inside":
                return self._inside(parts)
            case "closed":
                self._buffer = self._buffer.lstrip()
                if self._buffer:
                    self._state = "done"
                return bool(self._buffer)
            case "done":
                if self._buffer:
                    parts.append(Part(False, self._buffer))
                    self._buffer = ""
        return False

    def _look(self) -> bool:
        text = self._buffer.lstrip()
        if text.startswith(self._open):
            self._buffer = text[len(self._open) :]
            self._state = "opened"
            return True
        if self._open.startswith(text):
            return False
        self._state = "done"
        return True

    def _opened(self) -> bool:
        self._buffer = self._buffer.lstrip()
        if self._repeat:
            if self._buffer.startswith(self._open):
                # Some models say the tag that the prompt had already said.
                self._buffer = self._buffer[len(self._open) :].lstrip()
                self._repeat = False
            elif self._open.startswith(self._buffer):
                return False
        if not self._buffer:
            return False
        self._state = "inside"
        return True

    def _inside(self, parts: list[Part]) -> bool:
        text = self._buffer
        ends = [(at, tag) for tag in (self._close, TOOL_TAG) if (at := text.find(tag)) >= 0]
        if ends:
            at, tag = min(ends)
            self._emit(parts, text[:at].rstrip())
            self._buffer = text[at + len(tag) :] if tag == self._close else text[at:]
            self._state = "closed"
            return True
        # Space before the close tag is no thinking, so it waits with what may become the tag.
        certain = text[: len(text) - held_suffix(text, self._close, TOOL_TAG)].rstrip()
        self._emit(parts, certain)
        self._buffer = text[len(certain) :]
        return False

    def _emit(self, parts: list[Part], text: str) -> None:
        if text:
            parts.append(Part(True, text))
