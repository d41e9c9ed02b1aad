"""Clients that close their connection, at the level of bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

WAYS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": ...},
    "/api/chat": {"messages": ...},
    "/v1/responses": {"input": ...},
    "/v1/messages": {"messages": ..., "max_tokens": 100},
    "/api/generate": {"prompt": ...},
    "/v1/completions": {"prompt": ...},
}
"""Each route of chats, and where its body has what is asked."""


def body(path: str, model: str, prompt: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    fields = {k: (messages if k == "messages" else prompt) if v is ... else v for k, v in WAYS[path].items()}
    return {"model": model, **fields, **more}


class Line:
    """One connection with one request on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    @classmethod
    async def post(cls, url: str, path: str, asked: dict[str, Any], *headers: str) -> Line:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        data = json.dumps(asked).encode()
        head = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(data)}"]
        writer.write("\r\n".join([*head, *headers, "", ""]).encode() + data)
        await writer.drain()
        return cls(reader, writer)

    async def heard(self, word: bytes, *, within_s: float = 10.0) -> bytes:
        async with asyncio.timeout(within_s):
            return await self.reader.readuntil(word)

    def close(self) -> None:
        """As a client does that has had enough."""
        self._writer.close()

    def reset(self) -> None:
        """As the network does."""
        self._writer.transport.abort()

    def half_close(self) -> None:
        """Says that nothing more will be said; we take it for leaving, as clients' libraries do it only then."""
        self._writer.write_eof()
