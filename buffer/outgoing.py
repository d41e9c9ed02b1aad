"""What a worker's attempts have said and what of that is not away yet: in memory, by job, and bounded."""

from __future__ import annotations

import asyncio

from buffer.attempt import MOST_KEPT, Attempt
from buffer.closing import Closing
from buffer.job import Event
from buffer.records import Granted, Renewed

MOST_UNSENT = 1024 * 1024
"""Bytes of a job's events that are not away yet, above which its engine should not be read; of an orphan's, that can be
sent nowhere for now: ``MOST_KEPT``."""


class Outgoing:
    """The attempts of all jobs that a worker runs."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}
        self._closing: dict[str, Closing] = {}
        self._unsent: dict[str, Attempt] = {}
        self._unappended: dict[str, Attempt] = {}
        self._full: set[str] = set()
        self._wake = asyncio.Event()
        self._eased: asyncio.Event | None = None
        """Somebody waits for an engine to be read on."""
        self._strained = False
        self._append_due = False

    def attach(self, granted: Granted) -> None:
        """Takes a job on. An earlier attempt at it is over, or it had not been granted again."""
        if granted.id in self._attempts:
            self.drop(granted.id)
        self._attempts[granted.id] = Attempt(granted)

    def drop(self, id: str) -> None:
        """Forgets a job: nothing more of it will be sent."""
        self._attempts.pop(id, None)
        self._unsent.pop(id, None)
        self._unappended.pop(id, None)
        closing = self._closing.pop(id, None)
        if closing is not None and not closing.result.done():
            closing.result.set_result("lost")
        self._ease()

    def renewed(self, id: str, fence: int, renewed: Renewed) -> bool:
        """Takes in what ``renew`` told of the attempt under ``fence``: its gateway has another inbox, the store does
        not know it, or it is adopted and goes on under another fence. False: it should be, but its gateway lacks
        events that are no longer kept.
        """
        attempt = self._attempts.get(id)
        if attempt is None or attempt.fence != fence:
            return renewed.have == 0
        if renewed.status == "orphan":
            self._set_aside(attempt)
        elif renewed.status == "adopt":
            if not attempt.adopt(renewed.fence, renewed.inbox, renewed.have):
                return False
            self._take_up(attempt)
        elif renewed.status != "lost":
            attempt.move(renewed.inbox)
            if attempt.orphan:
                attempt.orphan = False
                self._take_up(attempt)
        elif attempt.orphan:
            # Else its own end, if it is being settled, may be what the store tells of.
            self.drop(id)
        return True

    def _set_aside(self, attempt: Attempt) -> None:
        attempt.orphan = True
        self._unsent.pop(attempt.id, None)
        self._unappended.pop(attempt.id, None)
        closing = self._closing.get(attempt.id)
        if closing is not None and closing.unwanted:
            self.drop(attempt.id)
        self._ease()

    def _take_up(self, attempt: Attempt) -> None:
        self._unsent[attempt.id] = self._unappended[attempt.id] = attempt
        self._strained = True
        self._append_due = True
        self._wake.set()
        self._ease()

    def write(self, id: str, events: list[Event]) -> bool:
        """Sends events of a job, in this turn of the loop. Of a job that was dropped: nothing. True: its engine should
        not be read on now.
        """
        attempt = self._attempts.get(id)
        if attempt is None:
            return False
        if events:
            attempt.write(events)
            if not attempt.orphan:
                self._strained = self._strained or attempt.recent_bytes > MOST_UNSENT
                self._unsent[id] = self._unappended[id] = attempt
                self._wake.set()
        return self._blocked(attempt)

    def written(self, id: str) -> int:
        """Events of a job."""
        return self._attempts[id].n if id in self._attempts else 0

    def pause(self, id: str) -> None:
        """Its gateway has enough for now."""
        if id in self._attempts:
            self._attempts[id].paused = True

    def go(self, id: str) -> None:
        """Its gateway can take more."""
        if id in self._attempts:
            self._attempts[id].paused = False
            self._ease()

    def blocked(self, id: str) -> bool:
        """Whether the job's engine should not be read now."""
        attempt = self._attempts.get(id)
        return attempt is not None and self._blocked(attempt)

    def _blocked(self, attempt: Attempt) -> bool:
        if attempt.orphan:
            return attempt.paused or attempt.recent_bytes > MOST_KEPT
        return attempt.paused or attempt.inbox in self._full or attempt.recent_bytes > MOST_UNSENT

    async def ready(self, id: str) -> None:
        """Waits until the job's engine may be read on, or the job has been dropped."""
        while self.blocked(id):
            if self._eased is None:
                self._eased = asyncio.Event()
            await self._eased.wait()

    def _ease(self) -> None:
        if self._eased is not None:
            self._eased.set()
            self._eased = None
