"""Jobs that change hands, or that the store has lost: what was heard goes on to the next attempt."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from buffer.access import StoreUnavailable
from buffer.chores import Chores
from buffer.desk import Want
from buffer.failures import INTERRUPTED, LOST
from buffer.fold import fold
from buffer.follower import DONE, Follower
from buffer.heard import Said, encode_said, fingerprint
from buffer.lanes import Lanes
from buffer.past import Past
from buffer.records import Submitted

log = logging.getLogger("doublebuffer.buffer")

TRIES = 5
RESTORED_AT_ONCE = 32
RESTORED_BYTES = 1024 * 1024
"""Of bodies in one exchange; one that is larger goes alone."""


class Handing:
    """``cancel``: has a job cancelled whose client left meanwhile. For the rest see ``Errands``."""

    def __init__(
        self,
        lanes: Lanes,
        chores: Chores,
        *,
        inbox_name: Callable[[], str],
        move_from: Callable[[str], Awaitable[None]],
        cancel: Callable[[str], None],
        lease_s: float,
    ) -> None:
        self._lanes = lanes
        self._chores = chores
        self._inbox_name = inbox_name
        self._move_from = move_from
        self._cancel = cancel
        self._lease_s = lease_s
        self._lost: OrderedDict[str, tuple[Follower, int]] = OrderedDict()
        """Jobs to restore, each with the least fence that the store must be above."""

    def take_back(self, follower: Follower) -> None:
        """What it lacks does not come: takes the job back from wherever it is."""
        if self._ready(follower) is not None:
            self._chores.add(("requeue", follower.id), partial(self.requeue, follower, force=True))

    async def requeue(self, follower: Follower, *, force: bool = False) -> None:
        """Puts a job back whose worker died, to go on from what was heard. ``force``: whoever has it by now."""
        fence = max(follower.fence, follower.target[0]) if force else follower.fence
        for _ in range(TRIES):
            if not follower.wanted or not follower.handing_on:
                return
            if follower.det and not force:
                await self._hear_dead(follower)
            said = self._ready(follower, "cancel" if force else "settle")
            if said is None:
                return
            result = await self._lanes.requeue(
                follower.id,
                fence,
                snapshot=encode_said(said),
                base=fingerprint(said),
                spent=follower.heard.pieces,
                inbox=self._inbox_name(),
            )
            if result.status == "queued":
                follower.moved_to(result.fence)
                self._let_go(follower)
                return
            if result.status == "gone":
                self.restore(follower)
                return
            if force and result.status == "done":
                # An end that does not follow from what the client has: an older attempt's, and not its own.
                self.restore(follower, result.fence + 1)
                return
            if not force:
                follower.stay()
                follower.note(result.fence, done=result.status == "done")
                return
            fence = result.fence
        follower.stay()

    async def _hear_dead(self, follower: Follower) -> None:
        """Of a detached answer others may have read more in the reply key than its frames told."""
        try:
            follower.hear_dead(fold(await self._lanes.reply(follower.id)))
        except (msgspec.MsgspecError, ValueError, KeyError):
            log.error("The reply of job %s cannot be read", follower.id)

    def _ready(self, follower: Follower, otherwise: Want = "cancel") -> Said | None:
        """What the next attempt goes on from. None: there is to be none, and it has ended."""
        if follower.complete:
            follower.finish(DONE, otherwise)
            return None
        said = follower.hand_on()
        if said is None:
            follower.fail(INTERRUPTED if otherwise == "settle" else LOST, otherwise)
        return said

    def restore(self, follower: Follower, floor: int = 0) -> None:
        """Puts a job into the store once more, soon, with others."""
        _, known = self._lost.get(follower.id, (follower, 0))
        self._lost[follower.id] = (follower, max(floor, known))
        self._chores.add(("restore", ""), self._restore_some)

    async def _restore_some(self) -> None:
        batch: list[tuple[Follower, int]] = []
        pasts: list[Past] = []
        size = 0
        while self._lost and len(batch) < RESTORED_AT_ONCE and size < RESTORED_BYTES:
            _, (follower, floor) = self._lost.popitem(last=False)
            past = self._past(follower, floor)
            if past is not None:
                batch.append((follower, floor))
                pasts.append(past)
                size += len(past.job.body)
        if batch:
            try:
                results = await self._lanes.restore(pasts, self._lease_s)
            except StoreUnavailable:
                for follower, floor in batch:
                    self._lost.setdefault(follower.id, (follower, floor))
                raise
            homes = {self._restored(*each) for each in zip(batch, pasts, results, strict=True)}
            for home in homes - {""}:
                await self._move_from(home)
        if self._lost:
            self._chores.add(("restore", ""), self._restore_some)

    def _past(self, follower: Follower, floor: int) -> Past | None:
        if not follower.wanted:
            return None
        if follower.job is None or follower.submitted_at is None:
            follower.fail(LOST)
            return None
        if follower.det and not follower.heard.plain:
            # Its reply key is gone, and what was in it cannot be told by a text.
            follower.fail(LOST, "cancel")
            return None
        running = follower.known_to_run and not floor and not follower.complete
        said = follower.fix() if running else self._ready(follower)
        if said is None:
            return None
        return Past(
            job=msgspec.structs.replace(follower.job, inbox=self._inbox_name()),
            age_us=round((asyncio.get_running_loop().time() - follower.submitted_at) * 1e6),
            floor=max(floor, follower.fence, follower.target[0]),
            said=encode_said(said),
            base=fingerprint(said),
            spent=follower.heard.pieces,
            have=follower.n if running else 0,
            backend=(follower.started or "") if running else "",
            waiting=not running,
            tries=follower.tries,
            started_ago_us=_ago_us(follower.started_at) or 0,
            first_ago_us=_ago_us(follower.first_at),
        )

    def _restored(self, asked: tuple[Follower, int], past: Past, result: Submitted) -> str:
        """The inbox that it was to be at home in, if that is gone."""
        follower, floor = asked
        if result.status == "homeless":
            self.restore(follower, floor)
            return past.job.inbox
        if result.status == "known":
            follower.stay()
            follower.note(result.fence, done=result.state == "done")
        else:
            follower.moved_to(result.fence, waiting=result.state == "waiting")
        self._let_go(follower)
        return ""

    def _let_go(self, follower: Follower) -> None:
        """Where its client has left meanwhile, nobody wants the job any more."""
        if not follower.wanted:
            self._cancel(follower.id)


def _ago_us(at: float | None) -> int | None:
    """``at``: by ``time.perf_counter``."""
    return None if at is None else round((time.perf_counter() - at) * 1e6)
