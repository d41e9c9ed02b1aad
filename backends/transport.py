"""httpx's aiohttp transport, with what it lacks for streams that break off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream, map_aiohttp_exceptions


class Transport(AiohttpTransport):
    def __init__(self, open_session: Callable[[], aiohttp.ClientSession]) -> None:
        """``open_session`` is called at the first request, within the loop."""
        # TLS is the session's business; no certificates need to be read for the transport.
        super().__init__(verify=False, client=open_session)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if isinstance(response.stream, AiohttpResponseStream):
            response.stream = _Stream(response.stream._aiohttp_response)
        return response


class _Stream(AiohttpResponseStream):
    """A body up to its last byte: where a connection breaks, aiohttp raises before it gives out what it has already
    read, and words would be lost that the engine had sent."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = self._aiohttp_response.content
        with map_aiohttp_exceptions():
            try:
                async for data in content.iter_any():
                    yield data
            except (aiohttp.ClientError, OSError):
                if rest := content._read_nowait(-1):
                    yield rest
                raise
