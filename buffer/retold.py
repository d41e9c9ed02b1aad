"""An answer as its reply key tells it, entry by entry, to somebody who came later or comes back. Pure.

Every piece has an id, ``<fence>-<n>``: the place behind it, from which it can be gone on. Whatever died meanwhile, each
word is given once: where an attempt goes on from less than was given already, it is heard silently until it says more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from buffer.fold import END_KINDS, WHOLE_REPLY
from buffer.heard import Heard, Said, decode_said, fingerprint
from buffer.job import Content, End, Event, Failure, Origin, Reasoning, Usage, decode_end, decode_events

BEGUN_ANEW = Failure(
    "The answer was begun anew after some of it had been read; read it again from its start.", 502, "begun_anew"
)


class Item(NamedTuple):
    """A piece of an answer. An ``id`` that is empty: it belongs to the next one."""

    id: str
    event: Event


class Retold:
    """``after``: the id of the last piece that the reader has; empty: it has none."""

    def __init__(self, after: str = "") -> None:
        self.end: End | None = None
        self.end_id = ""
        self.started_us = 0
        """Instant of the first attempt."""
        self.had: list[Item] = []
        """What the reader has, once that has been found."""
        self._after = after
        self._taken = bool(after)
        self._items: list[Item] = []
        self._heard = Heard()
        self._fence = self._n = 0
        self._counts = True
        self._lag = Said()
        """What was given, and what the attempt that speaks now has not said yet."""
        self._now: list[Item] = []
        """While there is such a lag: all that its attempt goes on from and has said."""

    @property
    def seeking(self) -> bool:
        """The reader's last piece has not been found yet."""
        return self._after != ""

    def take(self) -> list[Item]:
        """What came since the last call."""
        if self.seeking:
            return []
        items, self._items = self._items, []
        self._taken = self._taken or bool(items)
        return items

    def add(self, entry_id: str, fields: Mapping[bytes, bytes]) -> None:
        """The next entry. Raises ``msgspec.MsgspecError``, ``ValueError`` or ``KeyError`` on a broken one."""
        if self.end is not None:
            return
        head, _, tail = entry_id.partition("-")
        fence, n = int(head), int(tail)
        kind = fields[b"k"].decode()
        data = fields.get(b"d", b"")
        if kind == "ev":
            self._take_events(fence, n, int(fields[b"n"]), data)
        elif kind == "start":
            self._start(fence, data.decode())
        elif kind in ("again", "snap"):
            self._fence, self._n = fence, n
            self._restart(decode_said(data.decode()))
        elif kind == "lost":
            self._fence, self._n, self._counts = fence, 0, False
        elif kind in END_KINDS:
            self._take_end(fence, n, kind, data)

    def _take_events(self, fence: int, last: int, first: int, data: bytes) -> None:
        if not self._counts or fence != self._fence or first > self._n + 1:
            self._counts = False
            return
        for number, event in enumerate(decode_events(data), first):
            if self._n < number <= last and self.end is None:
                self._n = number
                self._say(Item(f"{fence}-{number}", event))

    def _start(self, fence: int, base: str) -> None:
        self._fence, self._n = fence, 0
        self.started_us = self.started_us or fence
        if not base:
            self._restart(Said())
        elif base == WHOLE_REPLY or base == fingerprint(self._said()):
            self._counts = True
        else:
            self._counts = False

    def _said(self) -> Said:
        """What the attempt that speaks now has said or goes on from."""
        if not self._lag:
            return self._heard.said()
        heard = Heard()
        heard.add(item.event for item in self._now)
        return heard.said()

    def _restart(self, said: Said) -> None:
        """From here on the answer reads ``said``, and then what comes."""
        self._counts = True
        self._lag, self._now = Said(), []
        heard = self._heard.said()
        generation = self._pieces(said)
        if not self._heard.plain or self._heard.finished:
            self._anew(generation)
        elif _leads_to(heard, said):
            for item in self._pieces(_beyond(heard, said)):
                self._append(item)
        elif _leads_to(said, heard):
            self._lag, self._now = _beyond(said, heard), generation
        else:
            self._anew(generation)

    def _pieces(self, said: Said) -> list[Item]:
        events = said.events()
        return [Item("" if one is not events[-1] else f"{self._fence}-{self._n}", one) for one in events]

    def _anew(self, generation: list[Item]) -> None:
        """What came no longer holds. Nobody who has seen some of it may be told anything else."""
        self._items.clear()
        self._lag, self._now, self._heard = Said(), [], Heard()
        if self._taken and not self.seeking:
            self.end = End("failed", BEGUN_ANEW)
            return
        for item in generation:
            self._append(item)

    def _say(self, item: Item) -> None:
        if not self._lag:
            self._append(item)
            return
        self._now.append(item)
        event, lag = item.event, self._lag
        rest: Content | Reasoning
        if isinstance(event, Origin | Usage):
            return
        if (
            isinstance(event, Content)
            and event.index == 0
            and not lag.thought
            and (text := _past(lag.text, event.text))
        ):
            self._lag, rest = Said(text[0]), Content(text[1])
        elif isinstance(event, Content) and not event.text:
            return
        elif (
            isinstance(event, Reasoning)
            and event.index == 0
            and (thought := _past(lag.thought, event.text))
            and not (thought[1] and lag.text)
        ):
            self._lag, rest = Said(lag.text, thought[0]), Reasoning(thought[1])
        else:
            self._anew(self._now)
            return
        if not self._lag:
            self._now = []
        if rest.text:
            self._append(Item(item.id, rest))

    def _append(self, item: Item) -> None:
        self._heard.add([item.event])
        self._items.append(item)
        if item.id == self._after and self.seeking:
            self._found()

    def _take_end(self, fence: int, n: int, kind: str, data: bytes) -> None:
        # Only "done" promises a whole answer; the others end it wherever it stands.
        whole = self._counts and fence == self._fence and n == self._n + 1
        if kind == "done" and not whole and not self._heard.finished:
            return
        if kind == "done" and self._lag:
            self._anew(self._now)
        self.end = self.end or decode_end(data)
        self.end_id = f"{fence}-{n}"
        if self._after == self.end_id:
            self._found()

    def _found(self) -> None:
        self.had, self._items, self._after = self._items, [], ""


def _leads_to(shorter: Said, longer: Said) -> bool:
    if shorter.text:
        return shorter.thought == longer.thought and longer.text.startswith(shorter.text)
    return longer.thought.startswith(shorter.thought)


def _beyond(shorter: Said, longer: Said) -> Said:
    return Said(longer.text[len(shorter.text) :], longer.thought[len(shorter.thought) :])


def _past(expected: str, text: str) -> tuple[str, str] | None:
    """What is then still expected, and what of ``text`` is new. None: it is something else."""
    if expected.startswith(text):
        return expected[len(text) :], ""
    return ("", text[len(expected) :]) if text.startswith(expected) else None
