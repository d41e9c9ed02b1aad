"""Files that clients upload and that offline batches write. Their records are in Redis; their contents on disk where
the setting ``files`` names a folder, else in Redis, as far as there is room.

    files = Files(store, settings.files)
    record = await files.create(owner, "in.jsonl", "batch", chunks)    # streams; raises NoRoom
    record = await files.read(id, owner)                               # None: nobody's, another's, or expired
    record = await files.read(id)                                      # for whoever runs a batch that reads it
    async for piece in files.chunks(record): ...                       # the whole, CHUNK bytes at a time
    line = await files.at(record, offset, length)                      # a part of it; raises FileLost
    page, more = await files.page(owner, after=id, limit=20)           # newest first
    await files.delete(record)                                         # "gone", "unknown", "read" by an open batch
    await files.keep_swept()                                          # what has expired goes from disk, until cancelled

All methods raise ``StoreUnavailable``, and ``NoRoom`` where the disk fails. A reader's ``FileLost`` means that a record
is there whose content is not.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from buffer.access import Store, StoreUnavailable
from buffer.file_folder import ENDED_S, WORK_S, Folder, read_at
from buffer.file_record import CHUNK, FILE_BYTES, MOST_FILES, About, DiskError, FileLost, FileRecord, NoRoom
from buffer.file_writers import even, on_disk, writer_of
from buffer.offline_keys import KEPT_S, OfflineKeys, digest
from buffer.offline_lists import ask, new_id, walk
from buffer.offline_record import OPEN

__all__ = ["CHUNK", "FILE_BYTES", "About", "Deleted", "FileLost", "FileRecord", "Files", "NoRoom"]

Deleted = Literal["gone", "unknown", "read"]

log = logging.getLogger("doublebuffer.buffer")

SWEEP_S = 3600.0
_ID = re.compile(r"file-[0-9a-f]{32}")
_RECORD = msgspec.json.Decoder(FileRecord)


class Files:
    """The files of all owners. ``folder``: the setting ``files``; None: contents are kept in Redis."""

    def __init__(self, store: Store, folder: str | None) -> None:
        self.store = store
        self.keys = OfflineKeys(store.prefix)
        self.folder = Folder(Path(folder), store.prefix) if folder else None

    async def create(
        self,
        owner: str,
        filename: str,
        purpose: str,
        chunks: AsyncIterator[bytes],
        *,
        expires_at: int | None = None,
        id: str = "",
        ours: bool = False,
    ) -> FileRecord:
        """Keeps a file; it is there for others once all of it is. ``expires_at``: seconds since 1970. ``id``: of a file
        that is perhaps there already, and is then replaced by the same. ``ours``: made here, not uploaded, and allowed
        any size; its room in Redis was taken before.

        Raises ``NoRoom``, and whatever ``chunks`` raises; then nothing is left of it.
        """
        id = id or new_id("file-")
        about = About(filename, purpose, expires_at)
        return await self._keep(owner, chunks, lambda: about, id, ours=ours)

    async def receive(self, owner: str, chunks: AsyncIterator[bytes], about: Callable[[], About]) -> FileRecord:
        """As ``create``; ``about`` is called once all of ``chunks`` came, and may raise."""
        return await self._keep(owner, chunks, about, new_id("file-"), ours=False)

    async def _keep(
        self, owner: str, chunks: AsyncIterator[bytes], about: Callable[[], About], id: str, *, ours: bool
    ) -> FileRecord:
        writer = writer_of(self.store, self.keys, self.folder, owner, id, ours=ours)
        size, kept = 0, False
        try:
            await writer.begin()
            async for piece in even(chunks):
                size += len(piece)
                if not ours and size > FILE_BYTES:
                    raise NoRoom(f"A file may have {FILE_BYTES // 1024**2} MB at most.", 413)
                await writer.write(piece)
            told, now = about(), int(time.time())
            record = FileRecord(
                id=id,
                owner=owner,
                filename=told.filename,
                purpose=told.purpose,
                bytes=size,
                created_at=now,
                expires_at=told.expires_at or now + KEPT_S,
                where="disk" if self.folder else "redis",
            )
            await writer.keep(record.expires_at)
            kept = await self._register(record, most=0 if ours else MOST_FILES)
            if not kept:
                await writer.withdraw(record.expires_at)
                raise NoRoom(f"There are {MOST_FILES:,} files of yours already; delete some of them.", 429)
        except DiskError as error:
            raise NoRoom(str(error), 507) from error
        finally:
            if not kept:
                await writer.discard()
        return record

    async def _register(self, record: FileRecord, *, most: int) -> bool:
        lifetime = max(1, record.expires_at - int(time.time()))
        args = [0, record.id, msgspec.json.encode(record), digest(record.owner), lifetime, most]
        return bool(await self.store.script("offline_file", keys=[self.keys.base], args=args))

    async def read(self, id: str, owner: str | None = None) -> FileRecord | None:
        """The record of a file. ``owner``: None sees each, and also one that has expired but is still read."""
        if not _ID.fullmatch(id):
            return None
        (found,) = await ask(self.store, ("GET", self.keys.file(id)))
        record = _RECORD.decode(found) if found else None
        if record is None or owner is None:
            return record
        return record if record.owner == owner and record.expires_at > time.time() else None

    async def page(
        self, owner: str, *, after: str = "", limit: int = MOST_FILES, purpose: str = "", oldest_first: bool = False
    ) -> tuple[list[FileRecord], bool]:
        """An owner's files, newest first, from behind ``after`` on; and whether there are more than ``limit``."""
        found: list[FileRecord] = []
        walked = walk(self.store, self.keys.files(owner), self.keys.file, ("GET",), after, oldest_first=oldest_first)
        async for value in walked:
            record = _RECORD.decode(value)
            if record.expires_at > time.time() and purpose in ("", record.purpose):
                found.append(record)
                if len(found) > limit:
                    return found[:limit], True
        return found, False

    async def delete(self, record: FileRecord) -> Deleted:
        """Removes a file, unless an open batch reads it."""
        args = [0, record.id, digest(record.owner)]
        done = await self.store.script("offline_drop", keys=[self.keys.base], args=args, again=False)
        if done < 0:
            return "read"
        if self.folder is not None and record.where == "disk":
            with suppress(DiskError):  # then it goes when it would have expired
                await on_disk(self.folder.remove, record.id, record.expires_at)
        return "gone" if done else "unknown"

    async def chunks(self, record: FileRecord, offset: int = 0) -> AsyncIterator[bytes]:
        """The content from ``offset`` on, a piece at a time. Raises ``FileLost``."""
        while offset < record.bytes:
            piece = await self.at(record, offset, min(CHUNK - offset % CHUNK, record.bytes - offset))
            offset += len(piece)
            yield piece

    async def at(self, record: FileRecord, offset: int, length: int) -> bytes:
        """That part of the content. Raises ``FileLost``, also where it is not all there."""
        length = min(length, record.bytes - offset)
        if length <= 0:
            return b""
        if record.where == "redis":
            first, last = offset // CHUNK, (offset + length - 1) // CHUNK
            (pieces,) = await ask(self.store, ("LRANGE", self.keys.data(record.id), first, last))
            found = b"".join(pieces)[offset - first * CHUNK :][:length]
        else:
            if self.folder is None:
                raise FileLost
            try:
                path = self.folder.path(record.id, record.expires_at)
                found = await on_disk(read_at, path, offset, length)
            except DiskError as error:
                raise FileLost from error
        if len(found) < length:
            raise FileLost
        return found

    async def sweep(self) -> int:
        """Removes from disk what has expired and no record knows any more, and what was left half-written; how many
        files. In Redis that happens by itself.
        """
        if self.folder is None:
            return 0
        try:
            await on_disk(self.folder.prepare)
            await on_disk(self.folder.sweep_drafts)
            await self._sweep_works(self.folder)
            ids = await on_disk(self.folder.overdue)
            known = await ask(self.store, *(("EXISTS", self.keys.file(id)) for id in ids)) if ids else []
            return await on_disk(self.folder.drop, [id for id, there in zip(ids, known, strict=True) if not there])
        except DiskError as error:
            raise NoRoom(str(error), 507) from error

    async def _sweep_works(self, folder: Folder) -> None:
        """What ended batches needed goes. Of one that Redis does not know, later: it may know it again."""
        old = [(id, age_s) for id, age_s in await on_disk(folder.works) if age_s > ENDED_S]
        found = await ask(self.store, *(("HGET", self.keys.batch(id), "status") for id, _ in old)) if old else []
        for (id, age_s), status in zip(old, found, strict=True):
            if age_s > WORK_S or (status is not None and status.decode() not in OPEN):
                await on_disk(folder.clear, id)

    async def keep_swept(self) -> None:
        """Sweeps, now and then hourly, until cancelled."""
        while True:
            try:
                if gone := await self.sweep():
                    log.info("%d files that had expired were removed", gone)
            except NoRoom as error:
                log.warning("%s", error)
            except StoreUnavailable:
                pass
            await asyncio.sleep(SWEEP_S)
