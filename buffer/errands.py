"""What a gateway does at the store for answers that do not come as they should."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from buffer.chores import Chores
from buffer.desk import Want
from buffer.failures import INTERRUPTED, LOST
from buffer.fold import fold
from buffer.follower import Follower
from buffer.handing import Handing
from buffer.job import End
from buffer.lanes import Lanes

log = logging.getLogger("doublebuffer.buffer")

LOOK_AGAIN_S = 0.2


class Errands:
    """``inbox_name`` tells where frames are to come, ``move_from`` makes another inbox than that one. ``give_up_s``:
    how long an answer may lack what its reply key lacks too. ``lease_s``: see ``Inbox``.
    """

    def __init__(
        self,
        lanes: Lanes,
        inbox_name: Callable[[], str],
        move_from: Callable[[str], Awaitable[None]],
        *,
        give_up_s: float,
        lease_s: float,
    ) -> None:
        self._lanes = lanes
        self._give_up_s = give_up_s
        self._chores = Chores()
        self._handing = Handing(
            lanes, self._chores, inbox_name=inbox_name, move_from=move_from, cancel=self.cancel, lease_s=lease_s
        )

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
                self._chores.add((what, id), partial(self._handing.requeue, follower))
            case "settle":
                self._chores.add((what, id), partial(self._settle, follower))
            case "cancel" | "forget":
                self.cancel(id)
            case "pause" | "go":
                self._chores.add(("signal", id), partial(self._signal, id, what))

    def cancel(self, id: str) -> None:
        self._chores.add(("cancel", id), partial(self._cancel, id))

    def restore(self, follower: Follower) -> None:
        """The store does not know the job as its gateway does: puts it there once more."""
        self._handing.restore(follower)

    async def _cancel(self, id: str) -> None:
        await self._lanes.cancel(id)

    async def _signal(self, id: str, word: Want) -> None:
        await self._lanes.signal(id, "pause" if word == "pause" else "go")

    async def _settle(self, follower: Follower) -> None:
        end = follower.end or End("failed", INTERRUPTED)
        await self._lanes.settle(follower.id, follower.fence, 1, end)

    async def _catch_up(self, follower: Follower) -> None:
        if not follower.wanted:
            return
        entries = await self._lanes.reply(follower.id)
        try:
            follower.take_folded(fold(entries))
        except (msgspec.MsgspecError, ValueError, KeyError):
            log.error("The reply of job %s cannot be read", follower.id)
            follower.fail(LOST, "cancel")
        if not follower.wanted or follower.behind_since is None:
            return
        loop = asyncio.get_running_loop()
        if follower.handing_on or loop.time() - follower.behind_since < self._give_up_s:
            loop.call_later(LOOK_AGAIN_S, self.want, follower, "catch_up")
        else:
            self._handing.take_back(follower)
