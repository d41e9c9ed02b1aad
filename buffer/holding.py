"""The right to decide about a spare back end: one worker's at a time, and what that one has noted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from buffer.job import End, Failure
from buffer.keys import SPARE_S
from buffer.lanes import Lanes
from buffer.taking import micros


@dataclass(frozen=True, slots=True)
class Held:
    """How it stands after a word with the store."""

    mine: bool
    """This worker decides, for as long as it asked for."""
    fence: int
    """Of whoever decides: what is noted with an older one is not taken."""
    stand: bytes
    """What was noted last; empty: nothing."""


async def hold(lanes: Lanes, backend: str, worker: str, *, lease_s: float, fence: int = 0, stand: bytes = b"") -> Held:
    """Takes the right to decide where it is free, and keeps it for ``lease_s`` seconds; 0: gives it up, or leaves it to
    others. ``stand``: noted if ``fence`` is still this worker's. Raises ``StoreUnavailable``.
    """
    args = [lanes.clock(), backend, worker, micros(lease_s), SPARE_S, fence, stand]
    mine, now_fence, noted = await lanes.store.script("hold", keys=[lanes.keys.base], args=args)
    return Held(bool(mine), int(now_fence), noted)


MOST_REFUSED = 1000


async def refuse_waiting(lanes: Lanes, queues: Sequence[str], failure: Failure) -> int:
    """Ends those who wait in these queues, the first ``MOST_REFUSED``; how many. Raises ``StoreUnavailable``."""
    keys = [key for queue in queues for key in (lanes.keys.due(queue), lanes.keys.wait(queue, "background"))]
    found = await lanes.store.exchange([("ZRANGE", key, 0, MOST_REFUSED - 1) for key in keys])
    refused = 0
    for ids in found:
        if isinstance(ids, Exception):
            raise ids
        for id in ids:
            refused += await lanes.cancel(id.decode(), "failed", End("failed", failure)) == "cancelled"
    return refused
