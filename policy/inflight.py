"""How many jobs a back end should have at a time, where its operator says ``auto``. Pure.

The cap follows what the engine itself shows, its waiting queue or the overlap of its streams, and never the pace of its
tokens: a cap tuned by pace gives away throughput.

A worker asks each for its ``limit``, jobs at a time, at least 1, before each pull. It tells it what a probe found
(``looked``; None where the engine doesn't tell) and how streams go: ``started``, ``flowed`` with each piece, ``ended``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

VLLM_SLOTS: Final = 32
OTHER_SLOTS: Final = 8
"""Of an OpenAI server that nothing is known of."""
OLLAMA_MOST: Final = 4


class _Deaf:
    """Most caps learn nothing from single streams."""

    def started(self, stream: str) -> None:
        return

    def flowed(self, stream: str, now_at: float) -> None:
        return

    def ended(self, stream: str) -> None:
        return


@dataclass(slots=True)
class FixedLimit(_Deaf):
    """The operator's number."""

    jobs: int

    def limit(self, now_at: float) -> int:
        return max(1, self.jobs)

    def looked(self, *, slots: int | None, waiting: int | None, running: int | None) -> None:
        return


@dataclass(slots=True)
class SlotsLimit(_Deaf):
    """As many as the engine tells, or ``fallback`` while it doesn't."""

    fallback: int
    jobs: int = 0

    def limit(self, now_at: float) -> int:
        return max(1, self.jobs or self.fallback)

    def looked(self, *, slots: int | None, waiting: int | None, running: int | None) -> None:
        if slots:
            self.jobs = slots


@dataclass(slots=True)
class QueueLimit(_Deaf):
    """The engine's places, lowered while its own waiting queue is not empty: what waits there can't be put in order
    here.

    One look at a queue that is just taking a batch in proves nothing, so it takes two in a row. It never goes below
    what runs.
    """

    ceiling: int = VLLM_SLOTS
    jobs: int = 0
    _waited: int = 0

    def limit(self, now_at: float) -> int:
        return max(1, self.jobs or self.ceiling)

    def looked(self, *, slots: int | None, waiting: int | None, running: int | None) -> None:
        if slots:
            self.ceiling = slots
        now = min(self.jobs or self.ceiling, self.ceiling)
        if waiting is None:
            self.jobs = now
        elif waiting > 0:
            lasting = min(waiting, self._waited)
            self.jobs = max(1, min(now, running or 1), now - lasting) if lasting else now
        else:
            self.jobs = min(self.ceiling, now + max(1, now // 4))
        self._waited = waiting or 0


@dataclass(slots=True)
class _Stream:
    order: int
    came_at: int = 0
    """The instant of its last piece, in pieces of all streams; 0: nothing came yet."""
    others: dict[str, int] = field(default_factory=dict)
    """Pieces of other streams since this one started, while nothing of it came."""
    overtaken: bool = False
    """Another stream went on for long and came to its end before this one began."""


@dataclass(slots=True)
class OverlapLimit:
    """For an engine that tells nothing: 1, and one more each time that so many streams are seen to run at once.

    To see it, one job more has to be sent: only while all the others flow, and after it was seen to wait for another's
    end, not again for a while. Streams overlap if a piece of each comes between two pieces of another.
    """

    most: int = OLLAMA_MOST
    jobs: int = 1
    """Streams seen to overlap."""
    retry_s: float = 60.0
    _streams: dict[str, _Stream] = field(default_factory=dict)
    _pieces: int = 0
    _started: int = 0
    _trial_at: float = 0.0
    _refused: int = 0
    _serial: int = 0

    LONG_PIECES: Final = 16
    SERIAL: Final = 3

    def limit(self, now_at: float) -> int:
        flowing = sum(1 for stream in self._streams.values() if stream.came_at)
        if self.jobs < self.most and now_at >= self._trial_at and flowing >= self.jobs:
            return self.jobs + 1
        return self.jobs

    @property
    def in_turn(self) -> bool:
        """Whether a second job was tried, and seen to wait for the end of the first."""
        return self.jobs == 1 and self._refused > 0

    def looked(self, *, slots: int | None, waiting: int | None, running: int | None) -> None:
        if slots:
            self.most = slots
            self.jobs = min(self.jobs, slots)

    def adopt(self, jobs: int, now_at: float) -> None:
        """What another worker has seen to overlap; not soon after the contrary was seen here."""
        if now_at < self._trial_at:
            return
        self.jobs = max(self.jobs, min(jobs, self.most))

    def started(self, stream: str) -> None:
        self._started += 1
        self._streams[stream] = _Stream(self._started)

    def flowed(self, stream: str, now_at: float) -> None:
        mine = self._streams.get(stream)
        if mine is None:
            return
        self._pieces += 1
        if mine.came_at:
            between = sum(1 for other in self._streams.values() if other.came_at > mine.came_at)
            self._overlap(between + 1)
        elif mine.overtaken:
            self._in_turn(now_at)
        mine.came_at = self._pieces
        for name, other in self._streams.items():
            if not other.came_at and name != stream:
                other.others[stream] = other.others.get(stream, 0) + 1

    def ended(self, stream: str) -> None:
        self._streams.pop(stream, None)
        for other in self._streams.values():
            if not other.came_at and other.others.pop(stream, 0) >= self.LONG_PIECES:
                other.overtaken = True

    def _overlap(self, streams: int) -> None:
        if streams >= self.jobs:
            self._serial = 0
        if streams > self.jobs:
            self.jobs = min(streams, self.most)
            self._refused = 0

    def _in_turn(self, now_at: float) -> None:
        """A stream began only after another's end."""
        self._trial_at = now_at + self.retry_s * 2 ** min(self._refused, 4)
        self._refused += 1
        self._serial += 1
        if self._serial >= self.SERIAL:
            self.jobs = max(1, self.jobs - 1)
            self._serial = 0


def in_flight_limit(
    kind: Literal["vllm", "ollama", "llamacpp", "openai"], configured: int | None = None
) -> FixedLimit | SlotsLimit | QueueLimit | OverlapLimit:
    """The cap for a kind of back end; ``configured``: the operator's number, which holds whatever is seen."""
    if configured is not None:
        return FixedLimit(configured)
    if kind == "ollama":
        return OverlapLimit()
    if kind == "vllm":
        return QueueLimit()
    return SlotsLimit(fallback=1 if kind == "llamacpp" else OTHER_SLOTS)
