"""How much of some back ends people have, and how much background work there is: for those who bring more of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from buffer.lanes import Lanes

_LANE = 3
"""Where a job's share tells its lane; see ``Keys.load``."""


@dataclass(frozen=True, slots=True)
class Crowding:
    """Jobs that wait for a model or run at its back ends."""

    people: int
    background: int


async def crowding(lanes: Lanes, queue: str, backends: Sequence[str]) -> Crowding:
    """``queue``: of a model. What other models' jobs take of the same back ends counts too. Raises
    ``StoreUnavailable``.
    """
    keys = lanes.keys
    waiting, behind, *loads = await lanes.store.exchange(
        [
            ("ZCARD", keys.due(queue)),
            ("ZCARD", keys.wait(queue, "background")),
            *(("HVALS", keys.load(name)) for name in backends),
        ]
    )
    for result in (waiting, behind, *loads):
        if isinstance(result, Exception):
            raise result
    ran = [share.split(b",", _LANE + 1)[_LANE] for shares in loads for share in shares]
    idle = sum(lane == b"background" for lane in ran)
    return Crowding(waiting + len(ran) - idle, behind + idle)
