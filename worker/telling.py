"""What an engine says of one job's answer, on its way to the reply."""

from __future__ import annotations

from buffer.job import Content, Event, Origin, Usage
from worker.hand import Hand
from worker.pool import Pool
from worker.whole import whole_usage


class Telling:
    """Writes an attempt's events into its reply, and notes what they tell of the engine."""

    __slots__ = ("_engine", "_hand", "_heard", "_held", "_id", "_recent", "_replies", "_said")

    def __init__(self, hand: Hand, pool: Pool) -> None:
        self._hand = hand
        self._id = hand.job.id
        self._engine = hand.engine
        self._heard = hand.heard
        self._replies = pool.replies
        self._recent = pool.telemetry.recent
        self._held: list[Event] = []
        """What an engine says of itself is no answer yet: an attempt that breaks after it can be made again."""
        self._said = 0

    def take(self, events: list[Event]) -> bool:
        """Whether the engine may be read on; else the reply has to be ``ready`` first."""
        hand, engine = self._hand, self._engine
        engine.flowed(hand.stream)
        if not hand.events:
            if all(isinstance(event, Origin) for event in events):
                self._held.extend(events)
                return True
            hand.first_at = engine.clock()
            if engine.heeds(hand.job.lane):
                engine.wake.set()
            events = [*self._held, *events]
        words = self._heard.add(events)
        if self._heard.finished:
            self._count(events)
        hand.events += len(events)
        if words:
            self._said += words
            self._recent.said(engine.name, words)
            hand.pace.tokens(engine.clock() - hand.started_at, hand.begun_spent + self._said)
        return not self._replies.write(self._id, events)

    def words(self, texts: list[str]) -> bool:
        """The same for words of an answer that has begun, a text for each event."""
        hand, engine = self._hand, self._engine
        count = len(texts)
        engine.flowed(hand.stream)
        self._heard.words(texts)
        hand.events += count
        self._said += count
        self._recent.said(engine.name, count)
        hand.pace.tokens(engine.clock() - hand.started_at, hand.begun_spent + self._said)
        return not self._replies.write(self._id, list(map(Content, texts)))

    def _count(self, events: list[Event]) -> None:
        """Takes the counts from among the last events, and makes them those of the whole answer."""
        hand = self._hand
        for at, event in enumerate(events):
            if type(event) is Usage:
                hand.usage = event
                events[at] = usage = whole_usage(event, hand.begun_spent) if hand.begun else event
                hand.tokens = usage.prompt + usage.completion

    def ended(self) -> None:
        """The answer is complete."""
        if self._hand.usage is not None:
            # A piece was taken for a token; the engine knows better.
            self._recent.said(self._engine.name, self._hand.usage.completion - self._said)
