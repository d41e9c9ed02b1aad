"""The worker's side of the answers: what engines said goes to the gateways at once, and to the reply keys soon after.

One turn, one pipeline: a frame for each inbox and its length, then the appends that are due, then what ends or gives
back a job. So a gateway will have read at least what the reply key has. (Detached jobs: appended, then sent.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal, cast

from buffer.access import StoreUnavailable
from buffer.attempt import Attempt
from buffer.closing import Closing, Release, Settle
from buffer.job import End
from buffer.lanes import Lanes
from buffer.outgoing import MOST_UNSENT, Outgoing
from buffer.records import GivenBack, ReleaseResult
from buffer.timing import Alarm, Backoff, Patience
from buffer.turn import Turn

log = logging.getLogger("doublebuffer.buffer")

APPEND_EVERY_S = 0.1
MOST_IN_INBOX = 2000  # entries that a gateway has not read, above which no more is sent there
LOOK_AGAIN_S = 0.05

FinishResult = Literal["ok", "done", "lost", "gone"]


class ReplyWriter(Outgoing):
    """Sends and appends the events of all jobs that a worker runs. ``run`` must run beside whatever else is called.

    ``on_lost(id)`` is called, from ``run``, when a job is found to be another's by now, or nobody's; ``on_orphan()``,
    when the store is found not to know one. Nothing more is sent of that one until ``renewed`` tells how it goes on.
    """

    def __init__(
        self,
        lanes: Lanes,
        *,
        lease_s: float = 15.0,
        on_lost: Callable[[str], None] = lambda id: None,
        on_orphan: Callable[[], None] = lambda: None,
        most_in_inbox: int = MOST_IN_INBOX,
    ) -> None:
        super().__init__()
        self._lanes = lanes
        self._lease_s = lease_s
        self._on_lost = on_lost
        self._on_orphan = on_orphan
        self._most_in_inbox = most_in_inbox
        self._patience = Patience(4 * lease_s)
        self._append_alarm = Alarm(APPEND_EVERY_S, self._append_now)
        self._look_alarm = Alarm(LOOK_AGAIN_S, self._wake.set)

    async def finish(
        self, id: str, end: End, *, real_tokens: int | None = None, dead: str = "", pace: bytes = b""
    ) -> FinishResult:
        """Sends and appends what is left, then settles the job; through an outage of the store, for up to four leases.

        ``real_tokens``: what its user's turn is charged in the end. ``dead``: reason of a dead letter. ``pace``: as
        ``Pace.encoded``.
        ``lost``: another owns it. ``gone``: nobody does, or the store stayed away. An orphan waits to be adopted first.
        """
        return cast(FinishResult, await self._close(id, Settle(end, real_tokens, dead, pace=pace)))

    async def release(self, id: str, back: GivenBack) -> ReleaseResult:
        """Sends what is left, then gives the job back to its place."""
        return cast(ReleaseResult, await self._close(id, Release(back)))

    async def _close(self, id: str, closing: Closing) -> str:
        attempt = self._attempts.get(id)
        if attempt is None or (attempt.orphan and closing.unwanted):
            return "gone"
        self._closing[id] = closing
        self._wake.set()
        try:
            return cast(str, await self._patience.wait(closing.result))
        except TimeoutError:
            log.warning("The store stayed away: the end of job %s could not be noted", id)
            return "gone"
        finally:
            # By now this worker may have pulled the same job again: that is another attempt.
            if self._attempts.get(id) is attempt:
                self.drop(id)

    async def run(self) -> None:
        """Sends what comes in, until cancelled."""
        backoff = Backoff()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                try:
                    await self._turn()
                    backoff.reset()
                except StoreUnavailable:
                    # Whether it went out is not known: all of it goes out again, and readers drop what they have.
                    await backoff.wait()
                    self._wake.set()
        finally:
            self._append_alarm.clear()
            self._look_alarm.clear()

    async def _turn(self) -> None:
        turn, attempts = Turn(self._lanes), self._attempts
        closing = {id: one for id, one in self._closing.items() if id in attempts and not attempts[id].orphan}
        carried = {id for id, one in closing.items() if one.carries}
        due = self._unappended if self._append_due else {id: attempts[id] for id in closing}
        # Detached ones are appended before they are sent, the others afterwards.
        before: list[Attempt] = []
        after: list[Attempt] = []
        for id, attempt in due.items():
            if id not in carried:
                (before if attempt.det else after).append(attempt)
        by_inbox: dict[str, list[Attempt]] = {inbox: [] for inbox in self._full}
        for id, attempt in self._unsent.items():
            if id in carried:
                continue
            if attempt.det and id not in due:
                before.append(attempt)
            if attempt.inbox not in self._full or id in closing:
                by_inbox.setdefault(attempt.inbox, []).append(attempt)
        turn.append(before)
        for inbox, some in by_inbox.items():
            turn.frame(inbox, some)
        turn.append(after)
        for id, one in closing.items():
            turn.close(attempts[id], one)
        turn.appends = turn.appends or self._append_due
        self._append_due = False
        try:
            await turn.send()
        except StoreUnavailable:
            self._append_due = True
            raise
        self._take(turn)

    def _take(self, turn: Turn) -> None:
        """What came of a turn."""
        for attempt, closing, result in turn.closed:
            known = self._attempts.get(attempt.id) is attempt
            if known and isinstance(result, int) and attempt.has_only(result):
                self._unappended[attempt.id] = attempt
                self._wake.set()
                continue
            if not closing.result.done():
                closing.result.set_result("gone" if isinstance(result, int) else result)
            if known:
                self.drop(attempt.id)
            if isinstance(closing, Settle) and closing.drop:
                self._on_lost(attempt.id)
        for attempt in turn.lost:
            if self._attempts.get(attempt.id) is attempt and attempt.id not in self._closing:
                self.drop(attempt.id)
                self._on_lost(attempt.id)
        for attempt in turn.orphans:
            if self._attempts.get(attempt.id) is attempt:
                self._set_aside(attempt)
                self._on_orphan()
        now = asyncio.get_running_loop().time()
        for attempt in turn.missing:
            # Without its inbox, a job's gateway is gone: after a lease of that, so is the job.
            if attempt.orphan or self._attempts.get(attempt.id) is not attempt:
                continue
            if attempt.missing_for(now) >= self._lease_s:
                self._closing.setdefault(attempt.id, Settle(End("cancelled"), drop=True))
                self._wake.set()
        for inbox, length in turn.lengths.items():
            if length > self._most_in_inbox:
                self._full.add(inbox)
            elif inbox in self._full:
                self._full.discard(inbox)
                self._wake.set()
                self._ease()
        for id in [id for id, attempt in self._unsent.items() if attempt.all_sent()]:
            del self._unsent[id]
        if turn.appends:
            for id in [id for id, attempt in self._unappended.items() if attempt.all_appended()]:
                del self._unappended[id]
        if self._strained and not any(
            attempt.recent_bytes > MOST_UNSENT and not attempt.orphan for attempt in self._attempts.values()
        ):
            self._strained = False
            self._ease()
        if self._unappended:
            self._append_alarm.set()
        if self._full:
            self._look_alarm.set()

    def _append_now(self) -> None:
        self._append_due = True
        self._wake.set()
