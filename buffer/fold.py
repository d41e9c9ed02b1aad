"""The one reader of a reply key: what its entries amount to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from buffer.heard import Heard, Said, decode_said, fingerprint
from buffer.job import Content, End, Event, Finish, Origin, Reasoning, Usage, decode_end, decode_events

WHOLE_REPLY = "@reply"
"""In the place of a text or its fingerprint: the attempt goes on from all that its reply key says. So a detached job
does whose gateway did not answer.
"""
END_KINDS = frozenset(("done", "failed", "cancelled", "expired"))


@dataclass(slots=True)
class Folded:
    """An answer as far as its reply key tells it: ``said``, then ``before``, then ``events``."""

    fence: int = 0
    n: int = 0
    """Number of the last event under ``fence``, which is the last of ``events`` if there are any."""
    said: Said = field(default_factory=Said)
    """What a gateway or a worker noted as all of it at some point; events since then follow."""
    spent: int = 0
    """Tokens of ``said``."""
    before: list[Event] = field(default_factory=list)
    """Events of earlier attempts that later ones went on from."""
    events: list[Event] = field(default_factory=list)
    end: End | None = None
    counts: bool = True
    """False: behind a hole or a death; what came since does not count."""
    dead: bool = False
    """The last word is that the worker died."""
    waits: bool = True
    """The last word is that nobody is at it."""
    whole_at_death: bool = False
    """Nothing was missing when the worker died."""

    def all_events(self) -> list[Event]:
        """The whole answer as events."""
        return [*self.said.events(), *self.before, *self.events]

    def heard(self) -> Heard:
        """All of it, added up."""
        heard = Heard(self.said)
        heard.pieces = self.spent
        heard.add(self.before)
        heard.add(self.events)
        return heard

    def whole(self) -> Said:
        """All of its words and thoughts."""
        return self.heard().said()

    def since(self, n: int) -> list[Event]:
        """Events after number ``n`` of this fence, which must not lie before the first of ``events``."""
        return self.events[n - (self.n - len(self.events)) :] if n < self.n else []

    def beyond(self, said: Said) -> list[Event] | None:
        """What comes after an answer that so far is ``said`` and nothing else. None: this one does not begin so."""
        at_start = Heard(self.said)
        at_start.add(self.before)
        if at_start.plain and at_start.said() == said:
            return list(self.events)
        whole = self.whole()
        if said.text:
            leads_on = whole.thought == said.thought and whole.text.startswith(said.text)
        else:
            leads_on = whole.thought.startswith(said.thought)
        return beyond(self.all_events(), said) if leads_on else None

    def _restart(self, said: Said, spent: int = 0) -> None:
        self.said, self.spent, self.before, self.events = said, spent, [], []
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
            # Also behind a text that was put back: whoever was at it has come for it, and goes on.
            answer.n, answer.waits = n, False
    elif kind == "start":
        base = data.decode()
        answer.fence, answer.n, answer.waits = fence, 0, False
        if base == WHOLE_REPLY or base == fingerprint(answer.whole()):
            answer.before += answer.events
            answer.events = []
            answer.counts, answer.dead = True, False
        elif not base:
            answer._restart(Said())
        else:
            answer.counts = False
    elif kind in ("again", "snap"):
        answer.fence, answer.n, answer.waits = fence, n, True
        answer._restart(decode_said(data.decode()), int(fields.get(b"s", b"0")))
    elif kind == "lost":
        answer.before += answer.events
        answer.events = []
        answer.whole_at_death = answer.whole_at_death if answer.dead else answer.counts
        answer.fence, answer.n, answer.counts, answer.dead, answer.waits = fence, 0, False, True, True
    elif kind in END_KINDS:
        # Only "done" promises a whole answer; the others end it wherever it stands. Behind a death it is the gateway's,
        # which knows that only the figures were missing.
        sound = answer.counts or (answer.dead and answer.whole_at_death)
        if kind != "done" or (sound and fence == answer.fence and n == answer.n + 1):
            answer.end = decode_end(data)


def beyond(events: Iterable[Event], said: Said) -> list[Event] | None:
    """Events after the characters of ``said``. None: among these lies something that is neither word nor thought."""
    rest: list[Event] = []
    words, thoughts = len(said.text), len(said.thought)
    for event in events:
        if isinstance(event, Content) and event.index == 0 and words:
            if len(event.text) > words:
                rest.append(Content(event.text[words:]))
            words = max(0, words - len(event.text))
        elif isinstance(event, Reasoning) and event.index == 0 and thoughts:
            if len(event.text) > thoughts:
                rest.append(Reasoning(event.text[thoughts:]))
            thoughts = max(0, thoughts - len(event.text))
        elif not words and not thoughts:
            if not isinstance(event, Origin):
                rest.append(event)
        elif not isinstance(event, Origin | Usage | Finish):
            return None
    return rest
