"""Recorded streams of real servers, and what the tests of readers share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from backends.answer import Answer
from backends.read_openai import CompletionReader
from backends.reasoning import Splitter
from backends.thinking import Mode
from buffer.job import Content, Event, Reasoning
from tests.rig.script import Piece, encode

_FOLDER = Path(__file__).parents[1] / "fixtures" / "streams"
NAMES = sorted(path.name for path in _FOLDER.iterdir())


def recorded(name: str) -> bytes:
    """The body of a recorded answer; some were recorded with their headers."""
    data = (_FOLDER / name).read_bytes()
    return (
        data.partition(b"\r\n\r\n" if b"\r\n\r\n" in data[:600] else b"\n\n")[2] if data.startswith(b"HTTP/") else data
    )


def answer(index: int = 0, mode: Mode = "show", **more: Any) -> Answer:
    """An answer whose tags are split, with ids that can be foreseen."""
    more.setdefault("splitter", Splitter() if mode != "answer" else None)
    return Answer(index, mode=mode, new_id=lambda: "call_new", **more)


def read(reader: Any, pieces: Iterable[bytes]) -> list[Event | str]:
    """All events; an error comes last, as its kind and message."""
    out: list[Event | str] = []
    for piece in pieces:
        out.extend(reader.feed(piece))
        if reader.over or reader.failure:
            break
    else:
        out.extend(reader.flush())
    if reader.failure:
        out.append(f"{reader.failure.kind}: {reader.failure.message}")
    return out


def said(events: Sequence[Event | str], index: int = 0) -> str:
    return "".join(event.text for event in events if isinstance(event, Content) and event.index == index)


def thought(events: Sequence[Event | str], index: int = 0) -> str:
    return "".join(event.text for event in events if isinstance(event, Reasoning) and event.index == index)


def cuts(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def reader(*answers: Answer) -> CompletionReader:
    return CompletionReader("b", answers or (answer(),))


def play(*pieces: Piece, of: CompletionReader | None = None) -> list[Event | str]:
    """The events of a script, each piece read by itself."""
    data = [encode("openai", piece) for piece in pieces if isinstance(piece, bytes | str | dict)]
    return read(of or reader(), data)
