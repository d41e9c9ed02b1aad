"""One answer as its gateway follows it: what came is in order and once, whoever sent it. Pure but for the waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from buffer.answer import Answer
from buffer.desk import Desk, Want
from buffer.failures import INTERRUPTED
from buffer.fold import END_KINDS, Folded
from buffer.frames import Part
from buffer.heard import Said, fingerprint
from buffer.job import Chat, End, Event, Finish, decode_end
from buffer.records import NewJob

DONE = End("done")


class Follower(Answer):
    """One job's answer. ``next`` gives its events as they come, then its end.

    ``chat``: what it answers, if it is a chat. ``resume``: whether another attempt may go on from the middle of it.
    """

    def __init__(
        self,
        desk: Desk,
        id: str,
        *,
        job: NewJob | None = None,
        chat: Chat | None = None,
        resume: bool = True,
        whole: bool = False,
    ) -> None:
        super().__init__(id, job=job, chat=chat, resume=resume, whole=whole)
        self._desk = desk
        self.started: str | None = None
        """Back end of the attempt that is followed; None before the first."""
        self.started_at: float | None = None
        """When word of the first attempt came, by ``time.perf_counter``."""
        self.on_start: Callable[[], None] | None = None
        """Called when it comes."""
        self.tries = 0
        """Attempts that there was word of,"""
        self._tried = 0  # and the fence of the last of them
        self.submitted_at: float | None = None
        """Seconds of the loop's clock; None: it is not known to be in the store."""
        self.fence = self.n = 0
        """``n``: number of the last event that came under ``fence``."""
        self.waiting = True
        """As far as is known, nobody is at it."""
        self.handing_on = False
        """What was heard is fixed: the next attempt is to go on from it."""
        self.target = (0, 0)
        """Fence and number that the reply key must be read up to; beyond (fence, n): something is missing."""
        self.behind_since: float | None = None
        """Since when (seconds of the loop's clock) something is missing and nothing moves."""
        self._joined = True
        """``n`` counts under ``fence``. Else this attempt has not been compared with what was heard."""

    def _want(self, what: Want) -> None:
        self._desk.want(self, what)

    def take(self, part: Part) -> None:
        """A part of a frame, in the order of the inbox."""
        if self._unread.end is not None or part.fence < self.fence:
            return
        if part.kind == "ev" and part.fence == self.fence and self._joined and not self.handing_on:
            self._take_events(part)
        elif part.kind in END_KINDS:
            self._take_end(part)
        elif part.fence > self.fence:
            self._take_newer(part)
        elif self.handing_on or not self._joined:
            self.target = max(self.target, (part.fence, _last(part)))
        elif part.kind == "again" and part.n == self.n + 1:
            self.n, self.waiting = part.n, True
        elif part.kind == "again" and part.n > self.n:
            self._miss(part.fence, part.n)

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
        if part.kind == "start":
            self._tries(part.fence)
        if part.kind == "lost":
            self._lost(part.fence)
        elif part.kind == "start" and self._follows(base):
            self._join(part.fence, 0, waiting=False)
            self.started = backend
        else:
            self._miss(part.fence, _last(part))

    def _tries(self, fence: int) -> None:
        """Somebody took it under ``fence``."""
        if fence > self._tried:
            self._tried = fence
            self.tries += 1
        if self.started_at is None:
            self.started_at = time.perf_counter()
            if self.on_start is not None:
                self.on_start()

    def _follows(self, base: str) -> bool:
        """Whether an attempt from ``base`` on goes on from what was heard; if need be, that is forgotten for it."""
        if not base and self.may_begin_anew():
            self._reset()
            return True
        return self.heard.plain and base == fingerprint(self.heard.said())

    def _join(self, fence: int, n: int, *, waiting: bool) -> None:
        self.fence, self.n, self.waiting = fence, n, waiting
        self._joined, self.handing_on = True, False
        self._moved()

    def _lost(self, fence: int) -> None:
        """Its worker died, and what came before this word is all that it said."""
        self.fence, self.n, self.waiting = fence, 0, True
        self._joined, self.handing_on = False, True
        self._moved()
        if self.complete:
            self.finish(DONE, "settle")
        elif self.det or self.may_go_on() or self.may_begin_anew():
            self._want("requeue")
        else:
            self.fail(INTERRUPTED, "settle")

    def _take_end(self, part: Part) -> None:
        follows = part.fence == self.fence and part.n == self.n + 1 and self._joined and not self.handing_on
        if part.kind == "done" and not follows:
            self._miss(part.fence, part.n)
        else:
            self.finish(decode_end(part.data.encode()))

    def take_folded(self, answer: Folded) -> None:
        """What the whole reply key amounts to: delivers what lies beyond what came already, if the one leads to the
        other.
        """
        if self.ended or self.handing_on or answer.fence < self.fence:
            return
        if answer.dead and answer.end is None:
            if answer.fence > self.fence:
                self.hear_dead(answer)
                self._lost(answer.fence)
            return
        joined = answer.fence == self.fence and self._joined
        if not joined:
            rest = self._compared(answer)
        else:
            rest = answer.since(self.n) if answer.n - len(answer.events) <= self.n else None
            if answer.end is not None and answer.n < self.n:
                rest = None  # the client has more than that end is for
        if rest is not None:
            moved = (answer.fence, answer.n) > (self.fence, self.n) or not joined
            if rest:
                self._deliver(rest)
            if not joined:
                self.heard.pieces = max(self.heard.pieces, answer.heard().pieces)
            if not joined and not answer.waits:
                self._tries(answer.fence)
            if moved:
                self._join(answer.fence, answer.n, waiting=answer.waits)
        if answer.end is not None and (rest is not None or answer.end.kind != "done"):
            self.finish(answer.end)

    def hear_dead(self, answer: Folded) -> None:
        """Takes what the reply key of a dead worker's attempt has beyond what its frames brought."""
        rest = answer.beyond(self.heard.said()) if self.heard.plain else None
        if rest is None and not self.given:
            rest = self._compared(answer)
        if rest:
            self._deliver(rest)
            self.heard.pieces = max(self.heard.pieces, answer.heard().pieces)

    def _compared(self, answer: Folded) -> list[Event] | None:
        """Events of ``answer`` beyond what came. None: it does not lead on from that."""
        if not self.given:
            self._reset()
            return answer.all_events()
        rest = answer.beyond(self.heard.said()) if self.heard.plain else None
        if rest and self.heard.finished:
            rest = [event for event in rest if not isinstance(event, Finish)]
        return rest

    def note(self, fence: int, *, done: bool = False) -> None:
        """The job is known to be at ``fence``, or to have ended there; if that is news, there is something to read."""
        if not self.ended and (fence > self.fence or (done and fence == self.fence)):
            self._miss(fence, self.n + 1 if fence == self.fence else int(done))

    @property
    def known_to_run(self) -> bool:
        """Somebody is at it under ``fence``, as far as is known."""
        return not self.waiting and self._joined and self.target[0] <= self.fence

    def hand_on(self) -> Said | None:
        """What another attempt is to go on from. From here until ``moved_to`` or ``stay`` nothing is taken under this
        fence. None: nobody can go on from what was heard.
        """
        if self.may_go_on():
            return self.fix()
        if not self.may_begin_anew():
            return None
        self._reset()
        self._joined = False
        return self.fix()

    def fix(self) -> Said:
        """What was heard. It stays so until ``moved_to`` or ``stay``."""
        self.handing_on = True
        return self.heard.said()

    def moved_to(self, fence: int, *, waiting: bool = True) -> None:
        """Its gateway itself put the job there."""
        if fence > self.fence:
            self._join(fence, 0, waiting=waiting)
        else:
            self.stay()

    def stay(self) -> None:
        """It was not handed on after all."""
        self.handing_on = False
        if self.target > (self.fence, self.n):
            self._miss(*self.target)

    def _miss(self, fence: int, n: int) -> None:
        self.target = max(self.target, (fence, n))
        if self.behind_since is None:
            self.behind_since = asyncio.get_running_loop().time()
        self._want("catch_up")

    def _moved(self) -> None:
        if self.behind_since is not None:
            behind = self.target > (self.fence, self.n)
            self.behind_since = asyncio.get_running_loop().time() if behind else None


def _last(part: Part) -> int:
    """Number of a part's last event, or of its mark."""
    return part.n + max(len(part.events) - 1, 0)
