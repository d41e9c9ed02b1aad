"""The one reader of a reply key: what its entries amount to. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from buffer.job import Content, End, Event, Origin, decode_end, decode_events

WHOLE_REPLY = "@reply"
"""In the place of a fingerprint: the attempt goes on from all that its reply key says. So a detached job does whose
gateway did not answer.
"""
END_KINDS = frozenset(("done", "failed", "cancelled", "expired"))


def fingerprint(text: str) -> str:
    """``<characters>:<crc32>``; empty for no text."""
    return f"{len(text)}:{zlib.crc32(text.encode())}" if text else ""


def content_text(events: Iterable[Event]) -> str:
    """The words of the (first) answer among events."""
    return "".join(event.text for event in events if isinstance(event, Content) and event.index == 0)


@dataclass(slots=True)
class Folded:
    """An answer as far as its reply key tells it: ``text``, then ``before``, then ``events``."""

    fence: int = 0
    n: int = 0
    """Number of the last event under ``fence``, which is the last of ``events`` if there are any."""
    text: str = ""
    """What a gateway or a worker noted as the whole text at some point; events since then follow."""
    before: list[Event] = field(default_factory=list)
    """Events of earlier attempts that later ones went on from."""
    events: list[Event] = field(default_factory=list)
    end: End | None = None
    counts: bool = True
    """False: behind a hole or a death; what came since does not count."""
    dead: bool = False
    """The last word is that the worker died."""

    def all_events(self) -> list[Event]:
        """The whole answer as events."""
        head: list[Event] = [Content(self.text)] if self.text else []
        return [*head, *self.before, *self.events]

    def whole_text(self) -> str:
        return self.text + content_text(self.before) + content_text(self.events)

    def since(self, n: int) -> list[Event]:
        """Events after number ``n`` of this fence, which must not lie before the first of ``events``."""
        return self.events[n - (self.n - len(self.events)) :] if n < self.n else []

    def beyond(self, text: str, *, words_only: bool) -> list[Event] | None:
        """What comes after an answer that so far reads ``text``. None: this one does not begin so.

        ``words_only``: the answer so far is nothing but words, so that these can be told apart by counting.
        """
        if fingerprint(self.text + content_text(self.before)) == fingerprint(text):
            return list(self.events)
        if words_only and self.whole_text().startswith(text):
            return beyond(self.all_events(), len(text))
        return None

    def _restart(self, text: str) -> None:
        self.text, self.before, self.events = text, [], []
        self.counts, self.dead = True, False


def fold(entries: Iterable[tuple[str, Mapping[bytes, bytes]]]) -> Folded:
    """Reads entries (id, fields) in their order. Raises ``msgspec.DecodeError`` or ``ValueError`` on a broken one."""
    answer = Folded()
    for entry_id, fields in entries:
        head, _, tail = entry_id.partition("-")
        _step(answer, int(head), int(tail), fields)
        if answer.end is not None:
            break
    return answer


def _step(answer: Folded, fence: int, n: int, fields: Mapping[bytes, bytes]) -> None:
    kind = fields[b"k"].decode()
    data = fields.get(b"d", b"")
    if kind == "ev":
        first = int(fields[b"n"])
        if not answer.counts or fence != answer.fence or first > answer.n + 1:
            answer.counts = False
        elif n > answer.n:
            answer.events += decode_events(data)[answer.n + 1 - first :]
            answer.n = n
    elif kind == "start":
        base = data.decode()
        answer.fence, answer.n = fence, 0
        if base in (WHOLE_REPLY, fingerprint(answer.whole_text())):
            answer.before += answer.events
            answer.events = []
            answer.counts, answer.dead = True, False
        elif not base:
            answer._restart("")
        else:
            answer.counts = False
    elif kind in ("again", "snap"):
        answer.fence, answer.n = fence, n
        answer._restart(data.decode())
    elif kind == "lost":
        answer.before += answer.events
        answer.events = []
        answer.fence, answer.n, answer.counts, answer.dead = fence, 0, False, True
    elif kind in END_KINDS:
        # Only "done" promises a whole answer; the others end it wherever it stands.
        whole = answer.counts and fence == answer.fence and n == answer.n + 1
        if kind != "done" or whole:
            answer.end = decode_end(data)


def beyond(events: Iterable[Event], skip: int) -> list[Event]:
    """Events after the first ``skip`` characters of content."""
    rest: list[Event] = []
    for event in events:
        if isinstance(event, Content) and event.index == 0 and skip:
            if len(event.text) > skip:
                rest.append(Content(event.text[skip:]))
            skip = max(0, skip - len(event.text))
        elif not skip and not isinstance(event, Origin):
            rest.append(event)
    return rest
