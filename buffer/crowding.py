"""How much of some back ends people have: for those who bring what can wait."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.lanes import Lanes

_LANE = 3
"""Where a job's share tells its lane; see ``Keys.load``."""


async def crowding(lanes: Lanes, queue: str, backends: Sequence[str]) -> int:
    """People's jobs that wait for a model (``queue``) or run at its back ends, those of other models there included.
    Raises ``StoreUnavailable``.
    """
    keys = lanes.keys
    waiting, *loads = await lanes.store.exchange(
        [("ZCARD", keys.due(queue)), *(("HVALS", keys.load(name)) for name in backends)]
    )
    for result in (waiting, *loads):
        if isinstance(result, Exception):
            raise result
    lanes_of = (share.split(b",", _LANE + 1)[_LANE] for shares in loads for share in shares)
    return int(waiting) + sum(bool(lane != b"background") for lane in lanes_of)
