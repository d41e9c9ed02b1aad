"""What a gateway does at the store for answers that do not come as they should."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import msgspec

from buffer.chores import Chores
from buffer.desk import Want
from buffer.failures import INTERRUPTED, LOST
from buffer.fold import fold
from buffer.follower import Follower
from buffer.job import End
from buffer.lanes import Lanes

log = logging.getLogger("doublebuffer.buffer")

LOOK_AGAIN_S = 0.2


class Errands:
    """``inbox_name`` tells where frames are to come; ``give_up_s``: how long an answer may lack what its reply key
    lacks too.
    """

    def __init__(self, lanes: Lanes, inbox_name: Callable[[], str], give_up_s: float) -> None:
        self._lanes = lanes
        self._inbox_name = inbox_name
        self._give_up_s = give_up_s
        self._chores = Chores()

    async def run(self) -> None:
        await self._chores.run()

    async def done(self) -> None:
        """Returns when nothing is left to do."""
        await self._chores.done()

    def want(self, follower: Follower, what: Want) -> None:
        id = follower.id
        match what:
            case "catch_up":
                self._chores.add((what, id), partial(self._catch_up, follower))
            case "requeue":
                self._chores.add((what, id), partial(self._requeue, follower, follower.fence))
            case "settle":
                self._chores.add((what, id), partial(self._settle, id, follower.fence))
            case "cancel" | "forget":
                self.cancel(id)
            case "pause" | "go":
                self._chores.add(("signal", id), partial(self._signal, id, what))

    def cancel(self, id: str) -> None:
        self._chores.add(("cancel", id), partial(self._cancel, id))

    def reclaim(self, follower: Follower, fence: int) -> None:
        """Puts a job back whose client has seen nothing, wherever it is now."""
        self._chores.add(("requeue", follower.id), partial(self._requeue, follower, fence, force=True))

    async def _cancel(self, id: str) -> None:
        await self._lanes.cancel(id)

    async def _signal(self, id: str, word: Want) -> None:
        await self._lanes.signal(id, "pause" if word == "pause" else "go")

    async def _settle(self, id: str, fence: int) -> None:
        await self._lanes.settle(id, fence, 1, End("failed", INTERRUPTED))

    async def _requeue(self, follower: Follower, fence: int, force: bool = False) -> None:
        """Puts a job back whose client has seen nothing yet. ``force``: whatever its fence may be by now."""
        for _ in range(3):
            if follower.ended or follower.closed or follower.given or (follower.fence != fence and not force):
                return
            result = await self._lanes.requeue(
                follower.id, fence, snapshot="", base="", spent=0, inbox=self._inbox_name()
            )
            if result.status == "queued":
                follower.moved_to(result.fence)
                return
            if result.status == "gone" or (force and result.status == "done"):
                break
            if not force:
                follower.note(result.fence, done=result.status == "done")
                return
            fence = result.fence
        follower.fail(LOST)

    async def _catch_up(self, follower: Follower) -> None:
        if follower.ended or follower.closed:
            return
        entries = await self._lanes.reply(follower.id)
        try:
            follower.take_folded(fold(entries))
        except (msgspec.MsgspecError, ValueError, KeyError):
            log.error("The reply of job %s cannot be read", follower.id)
            follower.fail(LOST, "cancel")
        if follower.ended or follower.behind_since is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() - follower.behind_since < self._give_up_s:
            loop.call_later(LOOK_AGAIN_S, self.want, follower, "catch_up")
        elif follower.given:
            follower.fail(LOST, "cancel")
        else:
            follower.behind_since = loop.time()
            await self._requeue(follower, max(follower.fence, follower.target[0]), force=True)
