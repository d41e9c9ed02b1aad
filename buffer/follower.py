"""One answer as its gateway follows it: what came is in order and once, whoever sent it. Pure but for the waiting."""

from __future__ import annotations

import asyncio
import time

from buffer.desk import Desk, Want
from buffer.failures import INTERRUPTED, TOO_LARGE, TOO_SLOW
from buffer.fold import END_KINDS, Folded, fingerprint
from buffer.frames import Part, weight
from buffer.job import Content, End, Event, Failure, Finish, Origin, Usage, decode_end

PAUSE_ABOVE = 1024 * 1024
"""Unread bytes above which the job's worker is asked to stop reading its engine."""
MOST_UNREAD = 32 * 1024 * 1024
"""Unread bytes at which a client is too slow to be served."""


class Follower:
    """One job's answer. ``next`` gives its events as they come, then its end."""

    def __init__(
        self, desk: Desk, id: str, *, fence: int = 0, lane: str = "", det: bool = False, whole: bool = False
    ) -> None:
        self.id = id
        self.whole = whole
        """The client gets it in one piece: ``next`` gives nothing before the end; till then it may begin anew."""
        self.lane = lane
        self.det = det
        self.started: str | None = None
        """Back end of the attempt that is followed; None before the first."""
        self.started_at: float | None = None
        """When word of the first attempt came, by ``time.perf_counter``."""
        self.first_at: float | None = None
        self.last_at = 0.0  # when its first event and its last came, by the same
        self.fence = fence
        self.n = 0
        """Number of the last event that came under ``fence``."""
        self.given = 0
        """Events that ``next`` has given out: what the client may have seen."""
        self.home = ""
        """The inbox that its frames come to."""
        self.open = False
        """Whether the job is known to have been submitted."""
        self.closed = False
        self.target = (0, 0)
        """Fence and number that the reply key must be read up to; beyond (fence, n): something is missing."""
        self.behind_since: float | None = None
        """Since when (seconds of the loop's clock) something is missing and nothing moves."""
        self._desk = desk
        self._events: list[Event] = []
        self._end: End | None = None
        self._given_end = False
        self._text: list[str] = []
        self._plain = True
        self._unread = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None

    # --- the client's side

    async def next(self) -> list[Event] | End:
        """What has come since the last call, waiting for it if nothing has; at last the end, once. Raises
        ``RuntimeError`` after it.
        """
        await self.wait()
        if self._events:
            events, self._events = self._events, []
            self.given += len(events)
            self._unread = 0
            if self._paused:
                self._paused = False
                self._desk.want(self, "go")
            return events
        if self._given_end or self._end is None:
            raise RuntimeError("This answer has ended.")
        self._given_end = True
        return self._end

    async def wait(self) -> None:
        """Returns as soon as ``next`` would at once. May be cancelled without losing anything; one caller at a time."""
        while self._end is None and (self.whole or not self._events):
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    @property
    def ended(self) -> bool:
        return self._end is not None

    def close(self) -> None:
        """Nothing more will be read. A job that has not ended is cancelled, unless it is detached."""
        if not self.closed:
            self.closed = True
            self._desk.want(self, "forget")

    # --- the store's side

    def take(self, part: Part) -> None:
        """A part of a frame, in the order of the inbox."""
        if self._end is not None or part.fence < self.fence:
            return
        if part.kind in END_KINDS:
            self._take_end(part)
        elif part.fence > self.fence:
            self._take_newer(part)
        elif part.kind == "ev":
            self._take_events(part)
        elif part.kind == "again" and part.n == self.n + 1:
            self.n = part.n
        elif part.kind == "again" and part.n > self.n:
            self._miss(part.fence, part.n)
        elif part.kind == "start":
            self._starts(part.data.partition(" ")[2])

    def _starts(self, backend: str) -> None:
        self.started = backend
        if self.started_at is None:
            self.started_at = time.perf_counter()

    def _take_events(self, part: Part) -> None:
        last = part.n + len(part.events) - 1
        if part.n > self.n + 1:
            self._miss(part.fence, last)
        elif last > self.n:
            self._deliver(part.events[self.n + 1 - part.n :] if part.n <= self.n else part.events)
            self.n = last
            self._moved()

    def _take_newer(self, part: Part) -> None:
        base, _, backend = part.data.partition(" ")
        if part.kind == "lost":
            self.fence, self.n = part.fence, 0
            self._moved()
            if self.given:
                self.fail(INTERRUPTED, "settle")
            else:
                self._reset()
                self._desk.want(self, "requeue")
        elif part.kind == "start" and (base == fingerprint(self.text()) or (not base and not self.given)):
            if not base:
                self._reset()
            self.fence, self.n = part.fence, 0
            self._starts(backend)
            self._moved()
        else:
            self._miss(part.fence, part.n + max(len(part.events) - 1, 0))

    def _take_end(self, part: Part) -> None:
        whole = part.fence == self.fence and part.n == self.n + 1
        if part.kind == "done" and not whole:
            self._miss(part.fence, part.n)
        else:
            self.finish(decode_end(part.data.encode()))

    def take_folded(self, answer: Folded) -> None:
        """What the whole reply key amounts to: delivers what lies beyond what came already, if the one leads to the
        other.
        """
        if self._end is not None:
            return
        if answer.dead and answer.end is None:
            self.take(Part(self.id, answer.fence, 0, "lost"))
            return
        rest = self._rest(answer) if answer.fence >= self.fence else None
        if rest is not None:
            moved = (answer.fence, answer.n) > (self.fence, self.n)
            self.fence, self.n = answer.fence, max(answer.n, self.n if answer.fence == self.fence else 0)
            if rest:
                self._deliver(rest)
            if moved:
                self._moved()
        if answer.end is not None and (rest is not None or answer.end.kind != "done"):
            self.finish(answer.end)

    def _rest(self, answer: Folded) -> list[Event] | None:
        """Events of ``answer`` beyond what came. None: it does not lead on from that."""
        if answer.fence == self.fence and answer.n - len(answer.events) <= self.n:
            return answer.since(self.n)
        if not self.given:
            self._reset()
            return answer.all_events()
        return answer.beyond(self.text(), words_only=self._plain)

    def note(self, fence: int, *, done: bool = False) -> None:
        """The job is known to be at ``fence``, or to have ended there; if that is news, there is something to read."""
        if self._end is None and (fence > self.fence or (done and fence == self.fence)):
            self._miss(fence, self.n + 1 if fence == self.fence else int(done))

    def moved_to(self, fence: int) -> None:
        """Its gateway itself put the job there."""
        if fence > self.fence:
            self.fence, self.n = fence, 0
        self._moved()

    def finish(self, end: End) -> None:
        """The end. What came before it will still be given out."""
        if self._end is None:
            self._end = end
            self._rouse()

    def fail(self, failure: Failure, want: Want | None = None) -> None:
        """Ends it here, whatever becomes of the job; ``want``: and see to that."""
        if self._end is None:
            self.finish(End("failed", failure))
            if want is not None:
                self._desk.want(self, want)

    def text(self) -> str:
        """The words so far."""
        return "".join(self._text)

    def _deliver(self, events: list[Event]) -> None:
        self.last_at = time.perf_counter()
        self.first_at = self.first_at or self.last_at
        self._events += events
        for event in events:
            if isinstance(event, Content) and event.index == 0:
                self._text.append(event.text)
            elif not isinstance(event, Finish | Usage | Origin):
                self._plain = False
            self._unread += weight(event)
        self._rouse()
        if self._unread > MOST_UNREAD:
            self.fail(TOO_LARGE if self.whole else TOO_SLOW, "cancel")
        elif self._unread > PAUSE_ABOVE and not self._paused and not self.whole:
            self._paused = True
            self._desk.want(self, "pause")

    def _reset(self) -> None:
        """Nothing was given out: what came is forgotten, and the answer may begin anew."""
        self._events, self._text, self._plain, self._unread, self.first_at = [], [], True, 0, None

    def _miss(self, fence: int, n: int) -> None:
        self.target = max(self.target, (fence, n))
        if self.behind_since is None:
            self.behind_since = asyncio.get_running_loop().time()
        self._desk.want(self, "catch_up")

    def _moved(self) -> None:
        if self.behind_since is not None:
            behind = self.target > (self.fence, self.n)
            self.behind_since = asyncio.get_running_loop().time() if behind else None

    def _rouse(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
