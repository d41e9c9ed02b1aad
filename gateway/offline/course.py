"""One offline batch, from wherever it stands to its end. It may be begun anew anywhere: what was done stays done."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from buffer.files import FileLost, FileRecord, Files
from buffer.offline import BatchError, NoRoom, Offline, OfflineBatch, Superseded, undone
from buffer.store import StoreUnavailable
from buffer.timing import Backoff, wait_for
from gateway.dialects.offline_results import CANCELLED, EXPIRED
from gateway.offline.answering import Answering, Whose
from gateway.offline.asking import Asking
from gateway.offline.checking import look_through
from gateway.offline.ending import rest_of, write_files
from gateway.offline.entry import Entry
from gateway.offline.reading import Lines
from gateway.offline.settling import Settling
from gateway.services import Parts

_log = logging.getLogger("doublebuffer.offline")
Ending = Literal["completed", "expired", "cancelled"]
LOOK_S = 0.5
"""How soon it is noticed that a batch is to end."""
LATEST_S = 3600.0
"""How long after its window a batch may wait for room for its files; then it fails."""


@dataclass(frozen=True, slots=True)
class House:
    """What the batches of a process share."""

    parts: Parts
    offline: Offline
    files: Files
    entry: Entry
    stopping: asyncio.Event
    """Nothing new is begun; what is under way has ``drain_seconds``."""


class Course:
    """Of one batch, for as long as ``fence`` is that of whoever runs it."""

    def __init__(self, house: House, id: str, fence: int) -> None:
        self._house = house
        self._offline = house.offline
        self._id = id
        self._fence = fence

    async def run(self) -> None:
        """To its end, or until the process is to stop; waits for a store that is away. Raises ``Superseded``, and
        ``NoRoom`` where it has to wait for room. May be cancelled.
        """
        backoff = Backoff()
        while not self._house.stopping.is_set():
            try:
                batch = await self._offline.read(self._id)
                if batch is None or not batch.open:
                    return
                await self._go_on(batch)
                backoff.reset()
            except StoreUnavailable:
                await backoff.wait()

    async def _go_on(self, batch: OfflineBatch) -> None:
        """A step, or the end where none can be made any more."""
        try:
            await self._step(batch)
        except FileLost as error:
            await self._fails(batch, BatchError("file_lost", str(error), "input_file_id"))
        except NoRoom as error:
            if time.time() < batch.kept.expires_at + LATEST_S:
                raise
            await self._fails(batch, BatchError("no_room", str(error)))

    async def _step(self, batch: OfflineBatch) -> None:
        record = await self._house.files.read(batch.kept.input_file_id)
        if record is None:
            raise FileLost
        overdue = time.time() >= batch.kept.expires_at
        match batch.status:
            case "validating" if overdue:
                await self._offline.move(batch, self._fence, "expired")
            case "validating":
                await self._look_through(batch, record)
            case "in_progress":
                await self._work(batch, record, overdue=overdue)
            case "cancelling":
                if batch.total:
                    await self._leave_rest(batch, record, CANCELLED)
                await self._end(batch, "cancelled")
            case _:
                await self._end(batch, "completed")

    async def _look_through(self, batch: OfflineBatch, record: FileRecord) -> None:
        found = await look_through(self._house.files, self._offline, batch, record)
        if found.errors:
            await self._offline.move(batch, self._fence, "failed", errors=found.errors)
            _log.info("offline batch %s cannot begin: %d problems in its file", self._id, len(found.errors))
            return
        await self._offline.move(batch, self._fence, "in_progress", total=found.total, model=found.model)
        _log.info("offline batch %s begins: %d lines", self._id, found.total)

    async def _work(self, batch: OfflineBatch, record: FileRecord, *, overdue: bool) -> None:
        numbers = undone(await self._offline.done(self._id), batch.total)
        if not numbers and batch.completed + batch.failed >= batch.total:
            await self._offline.move(batch, self._fence, "finalizing")
        elif overdue or not numbers:
            # Without any left, some were given up by one whose time was over.
            await self._leave_rest(batch, record, EXPIRED)
            await self._end(batch, "expired")
        else:
            await self._ask(batch, record, numbers)

    async def _ask(self, batch: OfflineBatch, record: FileRecord, numbers: Sequence[int]) -> None:
        """Has lines answered until all are, or something else is to be done with the batch."""
        house, kept = self._house, batch.kept
        whose = Whose(kept.owner, kept.user, kept.share)
        asking = Asking(
            batch,
            Answering(house.parts, kept.endpoint, whose, kept.expires_at),
            house.entry,
            Lines(self._offline, house.files, batch, record),
            Settling(self._offline, self._id, self._fence),
        )
        try:
            async with asyncio.TaskGroup() as group:
                work = group.create_task(asking.run(numbers))
                change = group.create_task(self._until_changed(batch))
                await asyncio.wait({work, change}, return_when=asyncio.FIRST_COMPLETED)
                if house.stopping.is_set() and not work.done():
                    asking.stop_feeding()
                    await asyncio.wait({work}, timeout=house.parts.settings.drain_seconds)
                work.cancel()
                change.cancel()
        except* (FileLost, Superseded) as several:
            raise first_of(several) from None

    async def _until_changed(self, batch: OfflineBatch) -> None:
        """Until the batch is to be cancelled, its time is over, or the process is to stop."""
        while time.time() < batch.kept.expires_at:
            if await wait_for(self._house.stopping, min(LOOK_S, max(0.0, batch.kept.expires_at - time.time()))):
                return
            try:
                now = await self._offline.read(self._id)
            except StoreUnavailable:
                continue
            if now is None or now.status != batch.status:
                return

    async def _leave_rest(self, batch: OfflineBatch, record: FileRecord, why: tuple[str, str]) -> None:
        numbers = undone(await self._offline.done(self._id), batch.total)
        lines = Lines(self._offline, self._house.files, batch, record)
        async for rest in rest_of(lines, self._id, numbers, why):
            await self._offline.settle(self._id, self._fence, rest)

    async def _end(self, batch: OfflineBatch, end: Ending) -> None:
        output, errors = await write_files(self._offline, self._house.files, batch)
        await self._offline.move(batch, self._fence, end, output_file_id=output, error_file_id=errors)
        _log.info("offline batch %s is %s: %d answered, %d failed", self._id, end, batch.completed, batch.failed)

    async def _fails(self, batch: OfflineBatch, error: BatchError) -> None:
        await self._offline.move(batch, self._fence, "failed", errors=[error])
        _log.warning("offline batch %s failed: %s", self._id, error.message)


def first_of(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of its exceptions, however deep."""
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
