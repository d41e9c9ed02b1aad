"""The lines of a batch's file, each read when its turn has come."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from buffer.files import FileLost, FileRecord, Files
from buffer.offline import Offline, OfflineBatch
from buffer.store import StoreUnavailable
from buffer.timing import Backoff
from gateway.dialects.offline import Line, check_line
from gateway.routes.chat import LARGE_BYTES, beside

AHEAD = 128 * 1024
"""Bytes that are read at a time, unless a line is longer."""
_PLACES = 256
"""Of so many lines at a time it is found out where they are."""


class Lines:
    """Lines of a batch's file by their numbers, best asked for in rising order."""

    def __init__(self, offline: Offline, files: Files, batch: OfflineBatch, record: FileRecord) -> None:
        self._offline = offline
        self._files = files
        self._batch = batch
        self._record = record
        self._first = 0
        self._places: Sequence[tuple[int, int]] = ()
        self._offset = 0
        self._piece = b""

    async def read(self, number: int) -> Line:
        """Waits for a store that is away. Raises ``FileLost``, also where a line is not what it was at first."""
        backoff = Backoff()
        while True:
            try:
                return await self._read(number)
            except StoreUnavailable:
                await backoff.wait()

    async def _read(self, number: int) -> Line:
        if not self._first <= number < self._first + len(self._places):
            self._places = await self._offline.places(self._batch.id, number, _PLACES)
            self._first = number
            if not self._places:
                raise FileLost
        offset, length = self._places[number - self._first]
        begin = offset - self._offset
        if begin < 0 or begin + length > len(self._piece):
            self._piece = await self._files.at(self._record, offset, max(length, AHEAD))
            self._offset, begin = offset, 0
        check = partial(check_line, self._piece[begin : begin + length], number, self._batch.kept.endpoint)
        line = await beside(length > LARGE_BYTES, check)
        if not isinstance(line, Line):
            raise FileLost
        return line
