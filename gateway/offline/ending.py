"""The end of an offline batch: what was not done is said to be so, and its two files are written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from buffer.files import Files
from buffer.offline import LineResult, Offline, OfflineBatch
from gateway.dialects.offline_results import error_line
from gateway.offline.reading import Lines

_AT_ONCE = 100


async def rest_of(
    lines: Lines, batch: str, numbers: Sequence[int], why: tuple[str, str]
) -> AsyncIterator[list[LineResult]]:
    """That these lines of a batch were never done, some at a time. ``why``: code and message. Raises ``FileLost``."""
    for at in range(0, len(numbers), _AT_ONCE):
        rest = []
        for number in numbers[at : at + _AT_ONCE]:
            line = await lines.read(number)
            data = error_line(line_id(batch, number), line.custom_id, *why)
            rest.append(LineResult(number, False, data, counts=False))
        yield rest
        # The embedded store never waits: a gateway has others to answer meanwhile.
        await asyncio.sleep(0)


async def write_files(offline: Offline, files: Files, batch: OfflineBatch) -> tuple[str | None, str | None]:
    """Ids of the output file and of the error file; None: there is nothing to be in it. Raises ``NoRoom``,
    ``FileLost``.
    """
    kept = batch.kept
    written: list[str | None] = []
    for ok, id, name in ((True, kept.output_id, "output"), (False, kept.error_id, "error")):
        pieces = offline.results(batch.id, ok=ok)
        first = await anext(pieces, None)
        if first is None:
            written.append(None)
            continue
        expires_at = int(time.time()) + kept.output_s
        await files.create(
            kept.owner,
            f"{batch.id}_{name}.jsonl",
            "batch_output",
            _joined(first, pieces),
            expires_at=expires_at,
            id=id,
            ours=True,
        )
        written.append(id)
    return written[0], written[1]


def line_id(batch: str, number: int) -> str:
    """What a line is called in its batch's files, however often it was tried."""
    return f"batch_req_{batch.removeprefix('batch_')}_{number}"


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
