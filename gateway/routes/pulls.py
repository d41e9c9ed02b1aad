"""Answers in lines that tell how far something is; and pulls that a batch worker carries out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from backends.management import ModelKeeper
from buffer.pulls import Pulls
from buffer.store import Store, StoreUnavailable
from gateway.call import JSON, NDJSON, Headers, Send, answer
from gateway.delivery import STREAM_HEADERS
from gateway.dialects.management import SUCCESS, Wanted, streamed
from gateway.pulled import follow

CHOSEN = b"x-doublebuffer-backend"


class CarriedPulls:
    """One pull of a model, however many clients want it, and whoever of them leaves."""

    def __init__(self, store: Store, heartbeat_s: float) -> None:
        self._pulls = Pulls(store)
        self._heartbeat_s = heartbeat_s

    async def takes(self, keeper: ModelKeeper) -> bool:
        """Whether a batch worker pulls for this back end."""
        try:
            return await self._pulls.offered(keeper.spec.name)
        except StoreUnavailable:
            return False

    async def follow(
        self, keeper: ModelKeeper, wanted: Wanted, send: Send, known: Callable[[], Awaitable[None]]
    ) -> None:
        """Tells one client of it. ``known``: waits until the lists have the model."""
        if wanted.stream:
            await open_lines(send, keeper)
        async for said in follow(self._pulls, keeper.spec.name, streamed(wanted.body), self._heartbeat_s):
            if wanted.stream and said.lines:
                await piece(send, said.lines)
            if said.end == SUCCESS:
                await known()
            if said.end and wanted.stream:
                await send({"type": "http.response.body", "body": said.end})
            elif said.end:
                await answer(send, 200 if said.end == SUCCESS else 502, JSON, said.end.strip(), names(keeper))


async def open_lines(send: Send, keeper: ModelKeeper | None) -> None:
    """``keeper``: the back end that is at it; None: none is."""
    about = () if keeper is None else names(keeper)
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", NDJSON), *STREAM_HEADERS, *about],
        }
    )


def piece(send: Send, data: bytes) -> Awaitable[None]:
    return send({"type": "http.response.body", "body": data, "more_body": True})


def names(keeper: ModelKeeper) -> Headers:
    """What the headers tell of a back end."""
    return [(CHOSEN, keeper.spec.name.encode("ascii", "replace"))]
