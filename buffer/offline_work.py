"""What an offline batch needs until it ends: where its lines are, and what became of them. On disk where there is a
folder for files, else in Redis.

On disk, results are appended to a file of the fence's own and synced before the script hears of them: what was
appended and is in no script's books, since whoever did it died in between, is no result.
"""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from buffer.access import Store
from buffer.file_folder import Draft, Folder, read_at, sync_folder, write_all
from buffer.file_record import DiskError, FileLost, NoRoom
from buffer.file_writers import on_disk
from buffer.offline_keys import READ_S, OfflineKeys
from buffer.offline_lists import ask

_PLACE = struct.Struct("<QI")
_MARK = struct.Struct("<QQI")
_AT_ONCE = 500
_PIECE = 1024 * 1024


def pack_place(offset: int, length: int) -> bytes:
    """Where one line is, as ``Offline.put_places`` takes it."""
    return _PLACE.pack(offset, length)


class Work:
    """Of all open batches. ``folder`` None: Redis keeps it."""

    def __init__(self, store: Store, keys: OfflineKeys, folder: Folder | None) -> None:
        self._store = store
        self._keys = keys
        self._folder = folder

    async def put_places(self, id: str, packed: AsyncIterator[bytes]) -> None:
        """See ``Offline``."""
        if self._folder is None:
            key = self._keys.lines(id)
            pieces = [("APPEND", key, piece) async for piece in packed]
            await ask(self._store, ("DEL", key), *pieces, ("EXPIRE", key, READ_S))
            return
        try:
            draft = await on_disk(self._folder.draft)
            try:
                async for piece in packed:
                    await on_disk(draft.write, piece)
                await on_disk(_keep, draft, self._folder, id)
            finally:
                await on_disk(draft.discard)
        except DiskError as error:
            raise NoRoom(str(error), 507) from error

    async def places(self, id: str, first: int, count: int) -> Sequence[tuple[int, int]]:
        """See ``Offline``."""
        at, length = (first - 1) * _PLACE.size, count * _PLACE.size
        if self._folder is None:
            (packed,) = await ask(self._store, ("GETRANGE", self._keys.lines(id), at, at + length - 1))
            if not packed:
                raise FileLost
        else:
            packed = await _read(self._folder, id, "lines", at, length)
        return list(_PLACE.iter_unpack(packed[: len(packed) - len(packed) % _PLACE.size]))

    async def keep(self, id: str, fence: int, lines: Sequence[bytes]) -> Sequence[bytes]:
        """What the books get for each of these results."""
        if self._folder is None:
            return lines
        try:
            at = await on_disk(_append, self._folder, id, f"results-{fence}", b"".join(lines))
        except DiskError as error:
            raise NoRoom(str(error), 507) from error
        marks = []
        for line in lines:
            marks.append(_MARK.pack(fence, at, len(line)))
            at += len(line)
        return marks

    async def results(self, id: str, *, ok: bool) -> AsyncIterator[bytes]:
        """See ``Offline``."""
        key, at = self._keys.results(id, ok=ok), 0
        while True:
            (entries,) = await ask(self._store, ("LRANGE", key, at, at + _AT_ONCE - 1))
            if not entries:
                return
            at += len(entries)
            if self._folder is None:
                for entry in entries:
                    yield entry
                continue
            for fence, offset, length in _runs(entries):
                piece = await _read(self._folder, id, f"results-{fence}", offset, length)
                if len(piece) < length:
                    raise FileLost
                yield piece

    async def ended(self, id: str) -> None:
        """What it needed goes with the next sweep but one."""
        if self._folder is not None:
            with suppress(DiskError):
                await on_disk(self._folder.ended, id)


def _runs(entries: Sequence[bytes]) -> list[tuple[int, int, int]]:
    """Marks, those that lie behind one another as one."""
    runs: list[tuple[int, int, int]] = []
    for entry in entries:
        fence, offset, length = _MARK.unpack(entry)
        if runs:
            last = runs[-1]
            if last[0] == fence and last[1] + last[2] == offset and last[2] + length <= _PIECE:
                runs[-1] = (fence, last[1], last[2] + length)
                continue
        runs.append((fence, offset, length))
    return runs


def _append(folder: Folder, id: str, name: str, data: bytes) -> int:
    """Where it begins. On disk for good once this returns."""
    path = folder.work(id, name)
    new = not path.exists()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        at = os.fstat(file).st_size
        write_all(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    if new:
        sync_folder(path.parent)
    return at


def _keep(draft: Draft, folder: Folder, id: str) -> None:
    draft.keep(folder.work(id, "lines"))


async def _read(folder: Folder, id: str, name: str, offset: int, length: int) -> bytes:
    try:
        return await on_disk(_read_now, folder, id, name, offset, length)
    except DiskError as error:
        raise FileLost from error


def _read_now(folder: Folder, id: str, name: str, offset: int, length: int) -> bytes:
    return read_at(folder.work(id, name), offset, length)
