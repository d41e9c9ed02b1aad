"""The routes by which models come to an Ollama server and go: passed on as they are, at whatever pace."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import aiohttp
import httpx

from backends.base import BackendError
from backends.client import Client
from backends.failures import early_end
from buffer.backend import BackendSpec

WHOLE_LIMIT = 1024 * 1024
"""Bytes of an answer that is read whole: it tells of an operation, not of its data."""
_OK = frozenset({200, 201})


class Passed:
    """An answer with a status of success, its body yet to be read."""

    def __init__(self, client: Client, response: httpx.Response) -> None:
        self.status = response.status_code
        self._client = client
        self._pieces = client.passed(response)

    async def next(self) -> bytes | None:
        """The next piece, as the network gives it; None at the end. Not to be cancelled and called again. Raises
        ``BackendError``."""
        try:
            return await anext(self._pieces, None)
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            raise self._client.trouble(error) from error

    async def whole(self) -> bytes:
        """All of it. Raises ``BackendError``."""
        body = bytearray()
        while (piece := await self.next()) is not None:
            body += piece
            if len(body) > WHOLE_LIMIT:
                raise early_end(self._client.name, "answers without end")
        return bytes(body)

    async def aclose(self) -> None:
        await self._pieces.aclose()


class ModelKeeper:
    """An Ollama server as the keeper of its models. A client's own key is never among what is passed on."""

    def __init__(self, spec: BackendSpec, *, connect_timeout_s: float) -> None:
        self.spec = spec
        self._client = Client(spec, connect_timeout_s=connect_timeout_s)

    @asynccontextmanager
    async def send(
        self, method: str, path: str, content: bytes | AsyncIterable[bytes] = b"", *, length: int | None = None
    ) -> AsyncIterator[Passed]:
        """Passes a request on. Leaving it ends it, at the server too. ``length``: of a body that comes in pieces, where
        it is known.

        Raises ``BackendError``; of kind ``client`` where the server refuses what was asked.
        """
        headers = {"Content-Type": "application/json"}
        if not isinstance(content, bytes):
            headers["Content-Type"] = "application/octet-stream"
            if length is not None:
                headers["Content-Length"] = str(length)
        async with self._client.pass_on(method, path, content, headers) as response:
            if response.status_code not in _OK:
                raise await self._client.refusal(response)
            async with aclosing(Passed(self._client, response)) as passed:
                yield passed

    async def has(self, path: str) -> bool:
        """Whether a HEAD request finds something there. Raises ``BackendError``."""
        async with self._client.pass_on("HEAD", path, b"", {}) as response:
            if response.status_code in {200, 404}:
                return response.status_code == 200
            raise BackendError(
                f"Back end '{self.spec.name}' answers with status {response.status_code}.", kind="failed"
            )

    async def aclose(self) -> None:
        await self._client.aclose()
