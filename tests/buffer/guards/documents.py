"""Documents that are read in pieces: what their tests begin with."""

from __future__ import annotations

from typing import Any

from buffer.lanes import Lanes
from buffer.records import Granted, Limits, Piece, Pulled
from tests.buffer.jobs import Clock, job, pull, ready

PIECES = Limits(slots=9, segment=400, pause_us=100_000)
WHOLE = Limits(slots=9)


async def document(lanes: Lanes, id: str, **fields: Any) -> None:
    """A document of a user of its own."""
    await lanes.submit(job(id, **{"lane": "slow", "prefill": 1500, "splits": True, "kv": 0, "user": id, **fields}))


async def sent(lanes: Lanes, id: str = "a", limits: Limits = PIECES, **fields: Any) -> Granted:
    await document(lanes, id, **fields)
    (granted,) = (await pull(lanes, limits=limits)).jobs
    return granted


async def is_read(lanes: Lanes, granted: Granted, upto: int) -> None:
    assert await lanes.prefilled([Piece(granted.id, granted.fence, upto)]) == 1


async def pieces(lanes: Lanes, limits: Limits = PIECES, **more: Any) -> list[tuple[str, int]]:
    """Pieces that go now."""
    return [(piece.id, piece.upto) for piece in (await pull(lanes, 0, limits=limits, **more)).pieces]


def went(pulled: Pulled) -> list[str]:
    return [granted.id for granted in pulled.jobs]


async def half_read(lanes: Lanes, id: str = "a", **fields: Any) -> tuple[Clock, Granted]:
    """One whose first piece is read."""
    clock = await ready(lanes)
    granted = await sent(lanes, id, **fields)
    await is_read(lanes, granted, granted.upto)
    return clock, granted
