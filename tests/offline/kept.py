"""Files and offline batches to begin with."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from buffer.files import FileRecord, Files
from buffer.offline import Kept, LineResult, LineUsage, Offline, OfflineBatch, new_id

ANN, BOB = "key:ann", "key:bob"
LEASE_S = 30.0


async def stream(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def upload(files: Files, data: bytes = b"{}\n", owner: str = ANN, **more: Any) -> FileRecord:
    return await files.create(owner, "in.jsonl", "batch", stream(data), **more)


async def content(files: Files, record: FileRecord, offset: int = 0) -> bytes:
    return b"".join([piece async for piece in files.chunks(record, offset)])


def kept(record: FileRecord, **more: Any) -> Kept:
    now = int(time.time())
    facts: dict[str, Any] = {
        "id": new_id("batch_"),
        "owner": record.owner,
        "user": record.owner,
        "endpoint": "/v1/chat/completions",
        "input_file_id": record.id,
        "completion_window": "24h",
        "created_at": now,
        "expires_at": now + 86_400,
        "output_s": 86_400,
        "output_id": new_id("file-"),
        "error_id": new_id("file-"),
    }
    return Kept(**(facts | more))


async def batch(offline: Offline, record: FileRecord | None = None, **more: Any) -> OfflineBatch:
    """A new one."""
    begun = kept(record or await upload(offline.files), **more)
    await offline.create(begun)
    return await again(offline, begun.id)


async def again(offline: Offline, id: str) -> OfflineBatch:
    """As it stands now."""
    found = await offline.read(id)
    assert found is not None
    return found


async def running(offline: Offline, total: int = 10, holder: str = "runner") -> tuple[OfflineBatch, int]:
    """One whose lines are being done; and the fence of whoever does them."""
    begun = await batch(offline)
    fence = await offline.hold(begun.id, holder, LEASE_S)
    assert fence is not None
    assert await offline.move(begun, fence, "in_progress", total=total, model="m")
    return await again(offline, begun.id), fence


def result(line: int, *, ok: bool = True, text: str = "", **more: Any) -> LineResult:
    usage = LineUsage(1, 0, 2, 0) if ok else LineUsage()
    return LineResult(line, ok, f"{text or 'line'} {line}\n".encode(), usage, **more)


async def lines_of(offline: Offline, id: str, *, ok: bool) -> list[str]:
    whole = b"".join([piece async for piece in offline.results(id, ok=ok)])
    assert not whole or whole.endswith(b"\n")
    return whole.decode().splitlines()


def on_disk(folder: str | None) -> Iterable[str]:
    """Names of all files there, below the prefix."""
    if folder is None:
        return []
    root = Path(folder)
    return sorted("/".join(path.relative_to(root).parts[1:]) for path in root.rglob("*") if path.is_file())
