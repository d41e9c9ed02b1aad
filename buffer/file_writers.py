"""A file on its way to where it is kept: a folder, or Redis."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from buffer.access import Store
from buffer.file_folder import Draft, Folder
from buffer.file_record import (
    CHUNK,
    SET_FILES,
    STORE_BYTES,
    STORE_FILE_BYTES,
    STORE_FULL,
    DiskError,
    FileLost,
    NoRoom,
)
from buffer.offline_keys import UPLOAD_S, OfflineKeys, digest

T = TypeVar("T")
_ANY = 2**52


class _Threads:
    """A process that was forked has none of its parent's threads, and would wait for them for ever."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.pool = ThreadPoolExecutor(4, "files")


_disk = _Threads()
"""Apart from the threads that large chats and names of servers need: a folder on a server that is away hangs."""


class Writer(ABC):
    """Takes a file's pieces. Nobody sees the file before ``keep``, and its record, are through. All methods raise
    ``DiskError`` and ``StoreUnavailable``.
    """

    @abstractmethod
    async def begin(self) -> None:
        """Before the first piece."""

    @abstractmethod
    async def write(self, piece: bytes) -> None:
        """The next piece: ``CHUNK`` bytes, but for the last one. Raises ``NoRoom``."""

    @abstractmethod
    async def keep(self, expires_at: int) -> None:
        """All of it was written. ``expires_at``: seconds since 1970."""

    @abstractmethod
    async def withdraw(self, expires_at: int) -> None:
        """It was to be kept, and is to be given up all the same."""

    @abstractmethod
    async def discard(self) -> None:
        """It is given up, at whatever point."""


def writer_of(store: Store, keys: OfflineKeys, folder: Folder | None, owner: str, id: str, *, ours: bool) -> Writer:
    """``ours``: made by an offline batch, whose results have taken the room already."""
    return _OnDisk(folder, id) if folder is not None else _InStore(store, keys, owner, id, ours=ours)


class _OnDisk(Writer):
    def __init__(self, folder: Folder, id: str) -> None:
        self._folder = folder
        self._id = id
        self._draft: Draft | None = None

    async def begin(self) -> None:
        self._draft = await on_disk(self._folder.draft)

    async def write(self, piece: bytes) -> None:
        assert self._draft is not None
        await on_disk(self._draft.write, piece)

    async def keep(self, expires_at: int) -> None:
        assert self._draft is not None
        await on_disk(self._draft.keep, self._folder.path(self._id, expires_at))

    async def withdraw(self, expires_at: int) -> None:
        await on_disk(self._folder.remove, self._id, expires_at)

    async def discard(self) -> None:
        if self._draft is not None:
            with suppress(DiskError):  # then it goes with what is half-written and old
                await on_disk(self._draft.discard)


class _InStore(Writer):
    def __init__(self, store: Store, keys: OfflineKeys, owner: str, id: str, *, ours: bool) -> None:
        self._store = store
        self._keys = keys
        self._owner = owner
        self._id = id
        self._ours = ours
        self._pieces = 0
        self._bytes = 0

    async def begin(self) -> None:
        if self._ours:
            await self.discard()  # whoever wrote it before may have died over it

    async def write(self, piece: bytes) -> None:
        self._bytes += len(piece)
        if not self._ours and self._bytes > STORE_FILE_BYTES:
            most = STORE_FILE_BYTES // 1024**2
            raise NoRoom(f"A file that is kept in Redis may have {most} MB at most; for larger ones, {SET_FILES}.", 413)
        args = [0, self._id, piece, self._pieces, UPLOAD_S, _ANY if self._ours else STORE_BYTES]
        put = await self._store.script("offline_put", keys=[self._keys.base], args=args)
        if put < 0:
            raise FileLost
        if not put:
            raise NoRoom(STORE_FULL, 503)
        self._pieces += 1

    async def keep(self, expires_at: int) -> None:
        """Its record makes it last."""

    async def withdraw(self, expires_at: int) -> None:
        """It has no record."""

    async def discard(self) -> None:
        args = [0, self._id, digest(self._owner)]
        await self._store.script("offline_drop", keys=[self._keys.base], args=args)


async def on_disk(work: Callable[..., T], *args: object) -> T:
    """What blocks, in a thread. Raises ``DiskError``."""
    try:
        return await asyncio.get_running_loop().run_in_executor(_disk.pool, work, *args)
    except OSError as error:
        raise DiskError(error) from error


async def even(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of ``CHUNK``, but for the last one."""
    held, size = list[bytes](), 0
    async for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= CHUNK:
            joined = b"".join(held)
            whole = size - size % CHUNK
            for at in range(0, whole, CHUNK):
                yield joined[at : at + CHUNK]
            held, size = [joined[whole:]], size - whole
    if size:
        yield b"".join(held)
