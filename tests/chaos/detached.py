"""A client that asks to outlive its connection, leaves, and comes back for its answer, to any gateway."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from random import Random

import aiohttp

from tests.chaos.client import Result, body_of, events_of, whole_of

AWAY_S = 3.0
"""Longest absence."""
UNKNOWN_S = 15.0
"""So long an answer may be unknown: a store that came back empty has yet to hear of it from its gateway."""
TIMES = 3
"""How often a client leaves at most."""


@dataclass
class Detached:
    session: aiohttp.ClientSession
    urls: Sequence[str]
    result: Result
    draw: Random
    last_id: str = ""
    """Of the last event that it took; empty: it begins from the start."""
    unknown_since: float = field(default=0.0)

    async def chat(self) -> None:
        """Asks, leaves, comes back until it has the answer or is told that there is none. Raises
        ``aiohttp.ClientConnectorError`` where nobody listens at first, and what breaks before it knows the request's
        id; afterwards it only tries again.
        """
        result = self.result
        try:
            over = await self._ask()
        except (aiohttp.ClientError, ConnectionError):
            if not result.id:
                raise
            over = False
        left = 1
        while not over:
            await asyncio.sleep(self.draw.uniform(0, AWAY_S))
            goes = self.draw.uniform(0, 1) if left < TIMES and self.draw.random() < 0.4 else None
            left += goes is not None
            try:
                over = await self._come_back(goes)
            except (aiohttp.ClientError, ConnectionError):
                result.returns += 1

    async def _ask(self) -> bool:
        """Whether it is over already."""
        result = self.result
        headers = {"X-Doublebuffer-Detach": "true"}
        url = self.urls[result.gateway] + result.ask.path
        async with self.session.post(url, data=body_of(result.ask), headers=headers) as response:
            if await whole_of(response, result):
                return True
            async for told in events_of(response, result.ask.api):
                result.first_at = result.first_at or time.time()
                result.take(told)
                if self._enough(result.ask.detaches):
                    return False
            return self._ended()

    async def _come_back(self, goes: float | None) -> bool:
        """``goes``: the part of the answer after which it leaves once more."""
        result = self.result
        result.returns += 1
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        url = f"{self.draw.choice(self.urls)}/v1/requests/{result.id}/stream"
        async with self.session.get(url, headers=headers) as response:
            match response.status:
                case 200:
                    pass
                case 204:
                    return self._ended()
                case 409:
                    # What came before is known to nobody any more, but for this client: it asks for all of it.
                    self.last_id = ""
                    return False
                case 404:
                    return self._unknown()
                case _:
                    return False
            self.unknown_since = 0.0
            if not self.last_id:
                result.begin_again()
            async for event_id, told in _numbered(response):
                result.take(told)
                self.last_id = event_id or self.last_id
                if self._enough(goes):
                    return False
            return self._ended()

    def _enough(self, part: float | None) -> bool:
        result = self.result
        return part is not None and result.text.count("·") >= part * result.ask.task.words

    def _ended(self) -> bool:
        """A stream that ends without an end or an error has to be asked for again."""
        result = self.result
        if result.error:
            result.outcome = "error in the answer"
        elif result.ends:
            result.outcome = "answered"
        return bool(result.error or result.ends)

    def _unknown(self) -> bool:
        now = time.monotonic()
        self.unknown_since = self.unknown_since or now
        if now - self.unknown_since < UNKNOWN_S:
            return False
        self.result.outcome = "forgotten"
        return True


async def _numbered(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, dict[str, object]]]:
    """Events with their ids, of whichever API."""
    rest = b""
    async for part in response.content.iter_any():
        *blocks, rest = (rest + part).split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if line[:1] != b":")
            data = fields.get(b"data", b"")
            if data.startswith(b"{"):
                yield fields.get(b"id", b"").decode(), json.loads(data)
