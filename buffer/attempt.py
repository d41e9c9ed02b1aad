"""One attempt at a job in its worker's memory: events numbered, sent, appended, and kept until the job is settled.
Pure.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from buffer.frames import Part, weights
from buffer.job import Event, decode_events, encode_events
from buffer.records import Granted
from buffer.said import Chunk, Last

MOST_KEPT = 8 * 1024 * 1024
"""Bytes of encoded events kept after they were appended; beyond it the oldest are forgotten."""


class _Kept(NamedTuple):
    n0: int
    n: int
    blob: bytes


class Attempt:
    """Events are numbered from 1. Up to ``sent`` they have been sent as frames, up to ``appended`` they stand in the
    reply key.

    An orphan is an attempt that the store does not know: it came back empty or older. It collects what its engine says
    until its gateway has put the job there again; then it is adopted under a new fence, and what the gateway lacks
    counts from 1.
    """

    __slots__ = (
        "_base",
        "_kept",
        "_kept_bytes",
        "_recent",
        "appended",
        "det",
        "fence",
        "id",
        "inbox",
        "n",
        "nil_since",
        "orphan",
        "paused",
        "recent_bytes",
        "sent",
    )

    def __init__(self, granted: Granted) -> None:
        self.id = granted.id
        self.fence = granted.fence
        self.inbox = granted.inbox
        self.det = granted.det
        self.n = 0
        self.sent = 0
        self.appended = 0
        self.paused = False
        self.orphan = False
        self.nil_since: float | None = None
        """Since when (seconds of the loop's clock) its inbox has been missing."""
        self.recent_bytes = 0
        """Rough size of the events that are not both sent and appended."""
        self._base = 0
        self._recent: list[Event] = []
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = 0

    def write(self, events: list[Event]) -> None:
        self._recent += events
        self.n += len(events)
        self.recent_bytes += weights(events)

    def adopt(self, fence: int, inbox: str, have: int) -> bool:
        """Goes on under a new fence, for a gateway that has events up to ``have``. False: some of the others are no
        longer kept.
        """
        if not self.has_only(have):
            return False
        del self._recent[: have - self._base]
        self.n -= have
        self.sent = self.appended = self._base = 0
        self.recent_bytes = weights(self._recent)
        self._kept.clear()
        self._kept_bytes = 0
        self.fence, self.inbox = fence, inbox
        self.orphan = self.paused = False
        self.nil_since = None
        return True

    def move(self, inbox: str) -> None:
        """Its gateway reads there by now."""
        if inbox != self.inbox:
            self.inbox, self.nil_since = inbox, None

    def missing_for(self, now: float) -> float:
        """How long its inbox has been missing, now that it is. Seconds of the loop's clock."""
        if self.nil_since is None:
            self.nil_since = now
        return now - self.nil_since

    def all_sent(self) -> bool:
        return self.sent >= self.n

    def all_appended(self) -> bool:
        return self.appended >= self.n

    def part(self) -> Part | None:
        """What is to be sent. None: nothing."""
        if self.sent >= self.n:
            return None
        return Part(self.id, self.fence, self.sent + 1, "ev", self._recent[self.sent - self._base :])

    def chunk(self) -> Chunk | None:
        """What is to be appended. None: nothing."""
        if self.appended >= self.n:
            return None
        blob = encode_events(self._recent[self.appended - self._base :])
        return Chunk(self.id, self.fence, self.appended + 1, self.n, blob)

    def last(self) -> Last:
        """What is to be sent and appended together with the end."""
        lacks = self.sent + 1 if self.sent < self.n else 0
        first = self.appended + 1 if self.appended < self.n else 0
        events = encode_events(self._recent[self.appended - self._base :]) if first else b""
        same = not lacks or lacks == first
        return Last(first, events, lacks, b"" if same else encode_events(self._recent[self.sent - self._base :]))

    def was_sent(self, n: int) -> None:
        self.sent = max(self.sent, n)
        if self.appended > self._base:
            self._forget()

    def was_appended(self, chunk: Chunk, n: int) -> bool:
        """Notes that the reply key has events up to ``n``. False: it lacks some that are no longer kept."""
        if n >= chunk.n:
            self._keep(_Kept(chunk.n0, chunk.n, chunk.events))
            self.appended = max(self.appended, chunk.n)
            self._forget()
            return True
        if n >= chunk.n0:
            some = decode_events(chunk.events)[: n - chunk.n0 + 1]
            self._keep(_Kept(chunk.n0, n, encode_events(some)))
        return self.has_only(n)

    def has_only(self, n: int) -> bool:
        """The reply key ends at ``n``: go on from there. False: what follows is no longer kept."""
        if n > self.n:
            return False
        while self._kept and self._kept[-1].n > n:
            last = self._kept.pop()
            self._kept_bytes -= len(last.blob)
            events = decode_events(last.blob)
            missing = self._base - last.n0 + 1
            if 0 < missing <= len(events):
                self._recent[:0] = events[:missing]
                self._base = last.n0 - 1
            if last.n0 <= n:
                self._keep(_Kept(last.n0, n, encode_events(events[: n - last.n0 + 1])))
        self.appended = n
        self.recent_bytes = weights(self._recent)
        return n >= self._base

    def _keep(self, some: _Kept) -> None:
        self._kept.append(some)
        self._kept_bytes += len(some.blob)
        while self._kept_bytes > MOST_KEPT:
            self._kept_bytes -= len(self._kept.popleft().blob)

    def _forget(self) -> None:
        done = min(self.sent, self.appended) - self._base
        if done <= 0:
            return
        self._base += done
        if done == len(self._recent):
            self.recent_bytes = 0
            self._recent.clear()
        else:
            self.recent_bytes -= weights(self._recent[:done])
            del self._recent[:done]
