"""An answer on its way to its client: what was heard of it, what is yet to be given out, and its end."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from buffer.desk import Want
from buffer.failures import TOO_LARGE, TOO_SLOW
from buffer.heard import Heard, can_go_on
from buffer.job import Chat, End, Event, Failure
from buffer.records import NewJob
from buffer.unread import MOST_UNREAD, PAUSE_ABOVE, Unread

GO_AGAIN = 3
"""How often a ``go`` is repeated, a watch apart: the store may lose one, and the worker would wait for ever."""


class Answer(ABC):
    """What ``next`` gives, and what may be asked of it. A ``Follower`` fills it."""

    def __init__(self, id: str, *, job: NewJob | None, chat: Chat | None, resume: bool, whole: bool) -> None:
        self.id = id
        self.job = job
        """What to put into the store once more, should it be lost."""
        self.det = job is not None and job.det
        """It is followed to its end, whether or not its client stays."""
        self.whole = whole
        """The client gets it in one piece: ``next`` gives nothing before the end; till then it may begin anew."""
        self.heard = Heard()
        self.given = 0
        """Events that ``next`` has given out: what the client may have seen."""
        self.first_at: float | None = None
        self.last_at = 0.0  # when its first event and its last came, by ``time.perf_counter``
        self.closed = False
        self._chat = chat
        self._resume = resume
        self._unread = Unread(whole=whole)
        self._paused = False
        self._goes = 0

    @abstractmethod
    def _want(self, what: Want) -> None:
        """Has something done at the store; returns at once."""

    async def next(self, until_at: float = math.inf) -> list[Event] | End:
        """What has come since the last call, waiting for it if nothing has; at last the end, once. Raises
        ``RuntimeError`` after it, and ``TimeoutError`` where nothing has come by ``until_at`` of the loop's clock.
        """
        await self._unread.wait(until_at)
        got = self._unread.take()
        if not isinstance(got, End):
            self.given += len(got)
            self._ease()
        return got

    async def wait(self) -> None:
        """Returns as soon as ``next`` would at once. May be cancelled without losing anything; one caller at a time."""
        await self._unread.wait()

    def straight_to(self, take: Callable[[list[Event]], bool] | None) -> None:
        """Has ``take`` called with what comes while ``next`` waits, so that nobody has to be woken for it. It gives
        False for what ``next`` has to give out all the same.
        """
        self._unread.straight = take

    @property
    def ready(self) -> bool:
        """``next`` would return at once."""
        return self._unread.ready

    @property
    def ended(self) -> bool:
        return self._unread.end is not None

    @property
    def end(self) -> End | None:
        return self._unread.end

    @property
    def wanted(self) -> bool:
        """It has not ended, and is to be brought to its end."""
        return not self.ended and (self.det or not self.closed)

    def close(self) -> None:
        """Nothing more will be read. A job that has not ended is cancelled, unless it is detached: then it is only
        heard from here on.
        """
        if not self.closed:
            self.closed = True
            self._unread.leave()
            if self.det:
                self._ease()
            self._want("forget")

    @property
    def complete(self) -> bool:
        """All words were heard, and only figures are missing."""
        return self.heard.finished and self._chat is not None and self._chat.n == 1

    def may_go_on(self) -> bool:
        """Another attempt can continue what was heard."""
        if self._chat is None or not self._resume or not can_go_on(self._chat, self.heard):
            return False
        return bool(self.heard.said())

    def may_begin_anew(self) -> bool:
        """Nobody has seen a word. Of a detached stream somebody may have read them in the reply key; who has read there
        of an answer in one piece is told that it begins anew.
        """
        blank = self.heard.plain and not self.heard.finished and not self.heard.said()
        return blank or not (self.given or (self.det and not self.whole))

    def finish(self, end: End, want: Want | None = None) -> None:
        """The end. What came before it will still be given out. ``want``: and see to that."""
        if not self.ended:
            self._unread.put_end(end)
            if self.closed:
                self._want("forget")
            if want is not None:
                self._want(want)

    def fail(self, failure: Failure, want: Want | None = None) -> None:
        """Ends it here, whatever becomes of the job."""
        self.finish(End("failed", failure), want)

    def remind(self) -> None:
        """Repeats to the worker whether to read on, lest the word got lost."""
        if self._paused or self._goes > 0:
            self._goes -= not self._paused
            self._want("pause" if self._paused else "go")

    def _deliver(self, events: list[Event]) -> None:
        self.last_at = time.perf_counter()
        self.first_at = self.first_at or self.last_at
        self.heard.add(events)
        if self.closed:
            return
        if not self._unread.put(events):
            self.given += len(events)
        elif self._unread.bytes > MOST_UNREAD:
            self.fail(TOO_LARGE if self.whole else TOO_SLOW, "cancel")
        elif self._unread.bytes > PAUSE_ABOVE and not self._paused and not self.whole:
            self._paused = True
            self._want("pause")

    def _ease(self) -> None:
        if self._paused:
            self._paused, self._goes = False, GO_AGAIN
            self._want("go")

    def _reset(self) -> None:
        """Nothing was given out: what came is forgotten, and the answer may begin anew."""
        self._unread.clear()
        self.heard, self.first_at = Heard(), None
        self._ease()
