"""An offline batch's file is looked through, once and a piece at a time, and it is noted where its lines are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from buffer.files import FileRecord, Files
from buffer.offline import Offline, OfflineBatch
from buffer.offline_work import pack_place
from gateway.dialects.offline import Checker

_LARGE = 16 * 1024
"""Pieces above this are looked through beside the loop."""


async def look_through(files: Files, offline: Offline, batch: OfflineBatch, record: FileRecord) -> Checker:
    """What was found. Raises ``FileLost``, ``NoRoom``, ``StoreUnavailable``."""
    checker = Checker(batch.kept.endpoint)
    await offline.put_places(batch.id, _places(files, record, checker))
    return checker


async def _places(files: Files, record: FileRecord, checker: Checker) -> AsyncIterator[bytes]:
    async for chunk in files.chunks(record):
        if len(chunk) > _LARGE:
            packed = await asyncio.to_thread(_pack, checker.feed(chunk))
        else:
            packed = _pack(checker.feed(chunk))
        if packed:
            yield packed
    # The last line may be all of the file.
    if last := await asyncio.to_thread(_pack, checker.finish()):
        yield last


def _pack(places: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(pack_place(offset, length) for offset, length in places)
