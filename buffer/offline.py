"""Offline batches: their records, who runs them, and what became of their lines. All of it in Redis, so that whoever
runs a batch may die at any moment; results are on disk where the setting ``files`` names a folder.

    offline = Offline(store, files)
    await offline.create(kept)                            # raises NoRoom, UnknownFile
    batch = await offline.read(id)                        # None: unknown; read(id, owner): also another's
    page, more = await offline.page(owner, after=id, limit=20)
    ids = await offline.open_ids()                        # oldest first
    batch = await offline.cancel(batch)                   # as it stands then

Whoever runs one:

    fence = await offline.hold(id, me, lease_s)           # None: another does, or it has ended
    await offline.renew(id, me, fence, lease_s)           # False: another does; lease_s 0 gives it up
    await offline.put_places(id, packed_places)           # where its lines are, once it was validated
    await offline.move(batch, fence, "in_progress", total=…, model=…)
    todo = undone(await offline.done(id), batch.total)
    places = await offline.places(id, 1, 100)             # (offset, length) of lines 1 to 100
    new = await offline.settle(id, fence, [LineResult(…), …])
    async for piece in offline.results(id, ok=True): …    # the output file, in pieces
    await offline.move(batch, fence, "finalizing"); …; await offline.move(batch, fence, "completed", output_file_id=…)

``settle`` is done whole or not at all, each line once. ``move`` is False where the batch has another status by now:
read it again. Both raise ``Superseded`` where another runs it by now. All raise ``StoreUnavailable``, and ``NoRoom``
where there is none for results.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from buffer.access import Store
from buffer.file_record import STORE_BYTES, STORE_FULL, NoRoom
from buffer.files import Files
from buffer.offline_keys import KEPT_S, READ_S, RECORD_S, RUNNERS_S, OfflineKeys, digest
from buffer.offline_lists import ask, new_id, walk
from buffer.offline_record import (
    MOVES,
    OPEN,
    BatchError,
    Kept,
    LineResult,
    LineUsage,
    OfflineBatch,
    Status,
    read_batch,
    undone,
)
from buffer.offline_work import Work
from buffer.taking import micros

__all__ = [
    "BatchError",
    "Kept",
    "LineResult",
    "LineUsage",
    "NoRoom",
    "Offline",
    "OfflineBatch",
    "Superseded",
    "UnknownFile",
    "new_id",
    "undone",
]

MOST_OPEN = 100
"""Batches of one owner at a time,"""
MOST_KNOWN = 1000
"""and of those that have ended too: each may take 13 kB of Redis for a month."""


class Superseded(Exception):  # noqa: N818
    """Another runs this batch by now, or it has ended."""

    def __init__(self) -> None:
        super().__init__("Another runs this offline batch by now, or it has ended.")


class UnknownFile(Exception):  # noqa: N818
    """The file that a batch is to read is not there."""


class Offline:
    """The offline batches of all owners."""

    def __init__(self, store: Store, files: Files) -> None:
        self.store = store
        self.files = files
        self.keys = OfflineKeys(store.prefix)
        self._work = Work(store, self.keys, files.folder)

    async def create(self, kept: Kept) -> None:
        """It is there, in ``validating``. Raises ``UnknownFile``, ``NoRoom`` where its owner has too many open."""
        args = [kept.id, msgspec.json.encode(kept), digest(kept.owner), kept.input_file_id, RECORD_S, READ_S]
        made = await self._script("offline_create", *args, MOST_OPEN, MOST_KNOWN)
        if made < 0:
            raise NoRoom(f"{MOST_OPEN} batches of yours are under way; wait for some of them, or cancel some.", 429)
        if not made:
            raise UnknownFile

    async def read(self, id: str, owner: str | None = None) -> OfflineBatch | None:
        """The batch; None: there is none of that id, or not of that owner. ``owner`` None sees each."""
        (fields,) = await ask(self.store, ("HGETALL", self.keys.batch(id)))
        if not fields or b"record" not in fields:
            return None
        batch = read_batch(fields)
        return batch if owner in (None, batch.kept.owner) else None

    async def page(self, owner: str, *, after: str = "", limit: int = 20) -> tuple[list[OfflineBatch], bool]:
        """An owner's batches, newest first, from behind ``after`` on; and whether there are more than ``limit``."""
        found: list[OfflineBatch] = []
        async for fields in walk(self.store, self.keys.batches(owner), self.keys.batch, ("HGETALL",), after):
            found.append(read_batch(fields))
            if len(found) > limit:
                return found[:limit], True
        return found, False

    async def open_ids(self) -> list[str]:
        """All batches that have not ended, oldest first."""
        (ids,) = await ask(self.store, ("ZRANGE", self.keys.open, 0, -1))
        return [id.decode() for id in ids]

    async def idle_ids(self) -> list[str]:
        """Those of them that nobody runs at the moment."""
        ids = await self.open_ids()
        if not ids:
            return []
        (seconds, micros_more), *found = await ask(
            self.store, ("TIME",), *(("HMGET", self.keys.batch(id), "status", "until") for id in ids)
        )
        now_us = int(seconds) * 1_000_000 + int(micros_more)
        return [id for id, (status, until) in zip(ids, found, strict=True) if status and int(until or 0) <= now_us]

    async def cancel(self, batch: OfflineBatch) -> OfflineBatch:
        """The batch as it stands once it was asked to end: ``cancelling``, unless it had come to its end before."""
        found: OfflineBatch | None = batch
        while found is not None and found.status in ("validating", "in_progress"):
            await self.move(found, 0, "cancelling")
            found = await self.read(batch.id)
        return found or batch

    # --- whoever runs it

    async def muster(self, runner: str, lease_s: float) -> int:
        """Says for ``lease_s`` seconds that this process runs batches; how many do, this one included."""
        key, now = self.keys.runners, time.time()
        *_, count = await ask(
            self.store,
            ("ZADD", key, now + lease_s, runner),
            ("ZREMRANGEBYSCORE", key, "-inf", now),
            ("EXPIRE", key, RUNNERS_S),
            ("ZCARD", key),
        )
        return max(1, int(count))

    async def hold(self, id: str, holder: str, lease_s: float) -> int | None:
        """The right to run it, for ``lease_s`` seconds from now; None: another has it, or the batch has ended.
        ``holder``: a name that nobody else has, and no earlier try either.
        """
        return await self._script("offline_hold", id, holder, 0, micros(lease_s)) or None

    async def renew(self, id: str, holder: str, fence: int, lease_s: float) -> bool:
        """Keeps that right for ``lease_s`` seconds from now; 0: gives it up. False: it is another's, or it is over."""
        return bool(await self._script("offline_hold", id, holder, fence, micros(lease_s)))

    async def move(
        self,
        batch: OfflineBatch,
        fence: int,
        to: Status,
        *,
        total: int | None = None,
        model: str | None = None,
        errors: Sequence[BatchError] | None = None,
        output_file_id: str | None = None,
        error_file_id: str | None = None,
    ) -> bool:
        """Changes the status from the one that ``batch`` has, and notes when, and what comes with it; fence 0: only for
        ``cancelling``. False: it has another status by now. At an end, what was needed until then goes.

        Raises ``ValueError`` for a step that there is none of, and ``Superseded``.
        """
        if to not in MOVES.get(batch.status, ()) or (fence == 0 and to != "cancelling"):
            raise ValueError(f"no batch goes from {batch.status} to {to} so")
        fields: dict[str, Any] = {f"{to}_at": int(time.time()), "total": total, "model": model}
        fields |= {"output_file_id": output_file_id, "error_file_id": error_file_id}
        if errors is not None:
            fields["errors"] = msgspec.json.encode(errors)
        told = [part for name, value in fields.items() if value is not None for part in (name, value)]
        ends, kept = to not in OPEN, batch.kept
        args = [kept.id, fence, batch.status, to, int(ends), KEPT_S, digest(kept.owner), kept.input_file_id, *told]
        moved = await self._script("offline_move", *args)
        if moved < 0:
            raise Superseded
        if moved and ends:
            await self._work.ended(kept.id)
        return bool(moved)

    async def put_places(self, id: str, packed: AsyncIterator[bytes]) -> None:
        """Keeps where a batch's lines are; see ``pack_place``. What was kept before is replaced."""
        await self._work.put_places(id, packed)

    async def places(self, id: str, first: int, count: int) -> Sequence[tuple[int, int]]:
        """Offset and length of the lines ``first`` to ``first + count - 1``, as far as there are so many. Raises
        ``FileLost``.
        """
        return await self._work.places(id, first, count)

    async def done(self, id: str) -> bytes:
        """The bitmap of settled lines, for ``undone``."""
        (bits,) = await ask(self.store, ("GET", self.keys.done(id)))
        return bits or b""

    async def settle(self, id: str, fence: int, results: Sequence[LineResult]) -> int:
        """Keeps what became of these lines; how many of them were new. Those that were settled before stay as they
        were. Raises ``Superseded`` and ``NoRoom``: then nothing was done.
        """
        kept = await self._work.keep(id, fence, [result.data for result in results])
        args: list[Any] = [id, fence, 0 if self.files.folder else STORE_BYTES]
        for result, entry in zip(results, kept, strict=True):
            counted = ("completed" if result.ok else "failed") if result.counts else ""
            args += [result.line, "output" if result.ok else "errors", counted, entry]
            args += msgspec.structs.astuple(result.usage)
        new = await self._script("offline_settle", *args)
        if new == -1:
            raise Superseded
        if new == -2:
            raise NoRoom(STORE_FULL, 503)
        return int(new)

    def results(self, id: str, *, ok: bool) -> AsyncIterator[bytes]:
        """The lines of its output file, or of its error file, as they were settled. Raises ``FileLost``."""
        return self._work.results(id, ok=ok)

    async def _script(self, name: str, *args: Any) -> int:
        return int(await self.store.script(name, keys=[self.keys.base], args=[0, *args]))
