"""All offline batches that a process runs: it takes on those that nobody does, and says again and again that it has
them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress

from buffer.files import Files
from buffer.offline import NoRoom, Offline, Superseded
from buffer.store import StoreUnavailable
from buffer.timing import wait_for
from gateway.offline.course import Course, House, first_of
from gateway.offline.entry import Entry
from gateway.services import Parts

_log = logging.getLogger("doublebuffer.offline")
LOOK_S = 1.0
"""How often it looks for batches that nobody runs."""
MUSTER_S = 5.0
"""How long it counts among those that share the places."""
MOST_BATCHES = 64
"""Of one process at a time."""
AGAIN_S = 15.0
"""How long a batch is left alone that could not go on."""


class Runner:
    """``lease_s``: after so long without a word its batches are anybody's."""

    def __init__(self, parts: Parts, offline: Offline, files: Files, *, lease_s: float) -> None:
        self._lease_s = lease_s
        self._me = secrets.token_hex(8)
        self.stopping = asyncio.Event()
        """Set it to have what is under way put away, and ``run`` end."""
        entry = Entry(parts.catalog, parts.pools, parts.embedding_pools)
        self._house = House(parts, offline, files, entry, self.stopping)
        self._running: set[str] = set()
        self._not_before: dict[str, float] = {}

    async def run(self, *, until_idle: bool = False) -> None:
        """Until it is to stop. ``until_idle``: or until nothing is left to do."""
        async with asyncio.TaskGroup() as group:
            entry = group.create_task(self._house.entry.run())
            async with asyncio.TaskGroup() as courses:
                while not self.stopping.is_set():
                    try:
                        await self._take_on(courses)
                        if self._running:
                            self._house.entry.runners = await self._house.offline.muster(self._me, MUSTER_S)
                        if until_idle and not self._running:
                            break
                    except StoreUnavailable:
                        pass
                    await wait_for(self.stopping, LOOK_S)
            entry.cancel()

    async def _take_on(self, courses: asyncio.TaskGroup) -> None:
        """Begins with what nobody runs. Raises ``StoreUnavailable``."""
        now_at = asyncio.get_running_loop().time()
        self._not_before = {id: at for id, at in self._not_before.items() if at > now_at}
        for id in await self._house.offline.open_ids():
            if id in self._running or id in self._not_before or len(self._running) >= MOST_BATCHES:
                continue
            # A name of each try's own: a word of the last one may still be on its way.
            holder = secrets.token_hex(8)
            fence = await self._house.offline.hold(id, holder, self._lease_s)
            if fence is not None:
                self._running.add(id)
                courses.create_task(self._run(id, holder, fence), name=f"offline batch {id}")

    async def _run(self, id: str, holder: str, fence: int) -> None:
        """One batch, until it has ended or cannot go on here."""
        lost = False
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew(id, holder, fence))
                await Course(self._house, id, fence).run()
                renewing.cancel()
        except* Superseded:
            lost = True
            _log.info("offline batch %s is run by another now, or has ended", id)
        except* StoreUnavailable:
            _log.warning("offline batch %s waits for the store", id)
            self._wait(id)
        except* NoRoom as several:
            _log.warning("offline batch %s waits: %s", id, first_of(several))
            self._wait(id)
        except* Exception as several:  # noqa: BLE001 - one batch that nobody was prepared for must not end the others
            _log.error("offline batch %s failed unexpectedly: %s", id, type(first_of(several)).__name__)
            self._wait(id)
        finally:
            self._running.discard(id)
            if not lost:
                with suppress(StoreUnavailable):
                    await self._house.offline.renew(id, holder, fence, 0)

    def _wait(self, id: str) -> None:
        self._not_before[id] = asyncio.get_running_loop().time() + AGAIN_S

    async def _renew(self, id: str, holder: str, fence: int) -> None:
        """Until cancelled. Raises ``Superseded`` once it is another's. While the store is away it is nobody else's."""
        while True:
            await asyncio.sleep(self._lease_s / 4)
            with suppress(StoreUnavailable):
                if not await self._house.offline.renew(id, holder, fence, self._lease_s):
                    raise Superseded
