"""Answers of numbered words, and what a reader makes of a reply key: the reference that the product is held against.

A word is ``<number>.<attempt> ``; so it shows a word left out, a word twice, and where another attempt went on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from buffer import heard
from buffer.heard import Said, decode_said, encode_said
from buffer.job import Content, decode_events, encode_events

ENDS = ("done", "failed", "cancelled", "expired")
REPLY = "@reply"
"""Prefix and base of a detached job that goes on from its own reply key."""


def word(number: int, attempt: int) -> str:
    return f"{number}.{attempt} "


def words(text: str) -> list[tuple[int, int]]:
    """Number and attempt of each word."""
    split = (one.partition(".") for one in text.split())
    return [(int(number), int(attempt)) for number, _, attempt in split]


def fingerprint(text: str) -> str:
    return heard.fingerprint(Said(text))


def snapshot(text: str) -> str:
    """As it travels in ``prefix``, ``snap`` and ``again``."""
    return encode_said(Said(text))


def unsnapped(data: str) -> str:
    return decode_said(data).text


def pack(pieces: list[str]) -> bytes:
    return encode_events([Content(piece) for piece in pieces])


def unpack(data: bytes) -> list[str]:
    return [event.text for event in decode_events(data) if isinstance(event, Content)]


@dataclass
class Folded:
    """What a reply key says."""

    text: str = ""
    fence: int = 0
    n: int = 0
    end: str = ""
    whole: bool = True
    """False: the last thing in it is a ``lost``, or a start that does not fit the text."""


def fold(entries: Iterable[tuple[bytes, dict[bytes, bytes]]], before: int | None = None) -> Folded:
    """Reads a reply key from its start, up to the fence ``before`` if one is given."""
    state = Folded()
    for entry_id, fields in entries:
        fence, n = (int(part) for part in entry_id.split(b"-"))
        if before is not None and fence >= before:
            break
        kind, data = fields[b"k"].decode(), fields.get(b"d", b"")
        if kind == "start":
            base = data.decode()
            if base not in (REPLY, fingerprint(state.text)):
                state.text = "" if base == "" else state.text
                state.whole = base == ""
            else:
                state.whole = True
            state.fence, state.n = fence, 0
        elif kind in ("snap", "again"):
            state.text, state.fence, state.n, state.whole = unsnapped(data.decode()), fence, n, True
        elif kind == "lost":
            state.fence, state.n, state.whole = fence, 0, False
        elif kind == "ev" and state.whole and fence == state.fence and int(fields[b"n"]) == state.n + 1:
            state.text += "".join(unpack(data))
            state.n = n
        elif kind == "ev":
            state.whole = False
        elif kind in ENDS and (kind != "done" or (state.whole and (fence, n) == (state.fence, state.n + 1))):
            state.end, state.fence, state.n = kind, fence, n
    return state
