"""One job for several requests, over all gateways: who waits for it, who reads its answer beside the one that sent it,
and who was the last to leave."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from buffer.job import End, Failure
from buffer.keys import DONE_JOB_S
from buffer.lanes import Lanes
from buffer.listening import Listener, Listening
from buffer.store import Store, StoreUnavailable

SUBMIT_S = 5.0
"""How long after it was claimed a job may be unknown to the store; then its gateway has died in between."""
LOOK_AGAIN_S = 0.05
BUSY = Failure(
    "Too many clients read answers of requests made elsewhere; try again.", 503, "too_many_readers", retry_after_s=1
)


@dataclass(frozen=True, slots=True)
class Share:
    """One client's part in what several ask for."""

    key: str
    """Of the hash that stands for it in the store."""
    client: str


class Sharing:
    def __init__(self, store: Store, listening: Listening) -> None:
        self._store = store
        self._listening = listening

    def listen(self, lanes: Lanes, ids: Sequence[str], *, whole: bool, started: str) -> list[Listener] | None:
        """Readers of jobs' answers, from their beginning. None: too many read already."""
        listeners: list[Listener] = []
        for id in ids:
            listener = self._listening.open(lanes, id, whole=whole, started=started)
            if listener is None:
                for other in listeners:
                    other.close()
                return None
            listeners.append(listener)
        return listeners

    async def leave(self, share: Share, id: str, why: Literal["left", "answered", "failed"]) -> bool:
        """Whether nobody waits for the job any more."""
        try:
            last = await self._store.script("leave", keys=[share.key], args=[0, id, share.client, why, DONE_JOB_S])
        except StoreUnavailable:
            return False
        return bool(last)

    async def left(self, share: Share, lanes: Lanes, ids: Sequence[str]) -> bool:
        """The client has left. If it was the last, the jobs are cancelled. ``ids``: the first is that which the key
        stands for. Gives whether it was.
        """
        last = await self.leave(share, ids[0], "left")
        if last:
            with suppress(StoreUnavailable):  # then they run to their end
                for id in ids:
                    await lanes.cancel(id)
        return last


def answers(end: End) -> bool:
    """It is an answer, or a refusal that will be the same each time."""
    status = end.failure.status if end.kind == "failed" and end.failure is not None else 500
    return end.kind == "done" or (400 <= status < 500 and status != 429)
