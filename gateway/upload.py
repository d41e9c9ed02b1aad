"""A request's body on its way through, of any size and at whatever pace the back end takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from gateway.body import PATIENCE_S, SLOWEST_BYTES_S
from gateway.call import Receive


class Upload:
    """One that its client broke off, or sends too slowly, is broken off at the back end too."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.left = self.slow = False

    async def pieces(self) -> AsyncIterator[bytes]:
        more = True
        clock = asyncio.get_running_loop().time
        patience_s = PATIENCE_S  # with the client: the back end takes its time
        while more:
            asked_at = clock()
            try:
                async with asyncio.timeout(patience_s):
                    message = await self._receive()
            except TimeoutError:
                self.slow = True
                raise OSError("the client sends next to nothing") from None
            if message["type"] == "http.disconnect":
                self.left = True
                raise OSError("the client has left")
            patience_s += len(message.get("body", b"")) / SLOWEST_BYTES_S - (clock() - asked_at)
            more = message.get("more_body", False)
            if piece := message.get("body", b""):
                yield piece
