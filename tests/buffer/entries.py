"""Entries of a reply key, as scripts and workers write them."""

from __future__ import annotations

from collections.abc import Iterable

from buffer.heard import Said, encode_said, fingerprint
from buffer.job import Content, End, Event, Reasoning, encode_end, encode_events
from buffer.retold import Retold

Entry = tuple[str, dict[bytes, bytes]]
DONE = End("done")


def mark(id: str, kind: str, data: str | bytes = "") -> Entry:
    n = id.partition("-")[2]
    return id, {b"k": kind.encode(), b"n": n.encode(), b"d": data.encode() if isinstance(data, str) else data}


def start(fence: int, base: Said | str = "") -> Entry:
    return mark(f"{fence}-0", "start", base if isinstance(base, str) else fingerprint(base))


def snap(id: str, said: Said, kind: str = "snap") -> Entry:
    return mark(id, kind, encode_said(said))


def ev(fence: int, first: int, *events: Event | str) -> Entry:
    told: list[Event] = [Content(one) if isinstance(one, str) else one for one in events]
    last = first + len(told) - 1
    return f"{fence}-{last}", {b"k": b"ev", b"n": str(first).encode(), b"d": encode_events(told)}


def done(fence: int, n: int) -> Entry:
    return mark(f"{fence}-{n}", "done", encode_end(DONE))


def read(entries: Iterable[Entry], after: str = "") -> Retold:
    found = Retold(after)
    for entry in entries:
        found.add(*entry)
    return found


def text(events: Iterable[Event]) -> str:
    return "".join(one.text for one in events if isinstance(one, Content | Reasoning))


def rest(found: Retold) -> str:
    return text(item.event for item in found.take())


QUEUED = mark("0-1", "queued", b"{}")
