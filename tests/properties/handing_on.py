"""What a gateway does with a job whose worker died, or whose answer stays away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from buffer.access import StoreUnavailable
from buffer.job import End
from buffer.records import Requeued
from tests.properties.following import Following
from tests.properties.ledger import Client, Violation
from tests.properties.text import fingerprint, snapshot

if TYPE_CHECKING:
    from tests.properties.serving import Gateway


@dataclass(eq=False)
class Open:
    client: Client
    following: Following
    handing_on: bool = False
    lost: bool = False
    submitted: bool = False
    home: str = ""
    """The inbox that its record names."""
    astray: bool = False
    """It has ended, and the reply key does not say how."""

    @property
    def id(self) -> str:
        return self.client.job.id


class HandingOn:
    """One job's text on its way to the next worker."""

    def __init__(self, gateway: Gateway, one: Open) -> None:
        self.gateway, self.one = gateway, one

    async def run(self) -> None:
        """Section 5, step 3: the text goes to the next worker, or the job ends."""
        one, world = self.one, self.gateway.world
        following, lost, home = one.following, one.lost, ""
        one.lost = False
        if one.client.job.det:
            text = (await self.gateway.fold(one.id)).text
            if text.startswith(following.text) and text != following.text:
                following._add(text[len(following.text) :])
        while True:
            fence, text = following.fence, following.text
            fails = lost and text and not one.client.resumable
            try:
                if fails:
                    run = lambda fence=fence: world.lanes.settle(one.id, fence, 1, End("failed"))  # noqa: E731
                    if await world.call(self.gateway, run) in ("ok", "done"):
                        self.ended("failed")
                        return
                    lost = False
                    continue
                home = self.gateway.inbox
                requeued = await world.call(
                    self.gateway, lambda fence=fence, text=text: self._requeue(one.id, fence, text)
                )
            except StoreUnavailable:
                continue
            if following.end:
                return
            if following.fence > fence:
                break
            if requeued.status == "gone":
                await self.restore()
                return
            following.fence, following.n = max(following.fence, requeued.fence), 0
            if requeued.status == "done" and one.astray:
                raise Violation(f"P9: {one.id} is done, and its reply key does not lead on from {text!r}")
            if requeued.status in ("queued", "done"):
                one.astray, one.home = requeued.status == "done", home
                break
        following.frozen = one.handing_on = False
        following.waits_since_us = world.schedule.now_us if requeued.status != "queued" else 0

    async def _requeue(self, job_id: str, fence: int, text: str) -> Requeued:
        lanes = self.gateway.world.lanes
        return await lanes.requeue(
            job_id, fence, snapshot=snapshot(text), base=fingerprint(text), spent=0, inbox=self.gateway.inbox
        )

    async def restore(self) -> None:
        """There is no record of it: once more from the start, if nothing of it was delivered."""
        one, gateway = self.one, self.gateway
        if one.following.end or one.id not in gateway.jobs:
            return
        if one.following.text:
            self.ended("failed")
            return
        following = one.following
        following.fence = following.n = 0
        following.seen, following.waits_since_us = (0, 0), 0
        following.frozen = one.handing_on = False
        gateway.world.ledger.counts["submitted anew"] += 1
        await gateway.submit(one)

    def ended(self, kind: str) -> None:
        following = self.one.following
        if not following.end:
            following.end = kind
            following.finish(kind)
        self.gateway.jobs.pop(self.one.id, None)
