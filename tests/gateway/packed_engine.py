"""An engine behind something that packs each of its answers, streams too, whether it was asked to or not."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import Any

from tests.rig.engine import pages
from tests.rig.script import answer, encode


class Packed:
    """``go``: what a stream waits for after its first piece."""

    def __init__(self, kind: str, model: str) -> None:
        self.kind = kind
        self.pages = pages(kind, [model])
        self.go = asyncio.Event()
        self.refuses = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        body = bytearray()
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            body += message.get("body", b"")
        if scope["path"] not in {"/api/chat", "/v1/chat/completions"}:
            page = self.pages.get(scope["path"])
            await self._whole(send, 404 if page is None else 200, {"error": "none"} if page is None else page)
        elif self.refuses:
            error = "too long" if self.kind == "ollama" else {"message": "too long", "code": 400}
            await self._whole(send, 400, {"error": error})
        else:
            await self._stream(send)

    async def _whole(self, send: Any, status: int, page: Any) -> None:
        if not isinstance(page, dict | list):
            page = {}
        data = gzip.compress(json.dumps(page).encode())
        length = str(len(data)).encode()
        await send(
            {"type": "http.response.start", "status": status, "headers": [*_HEADERS, (b"content-length", length)]}
        )
        await send({"type": "http.response.body", "body": data})

    async def _stream(self, send: Any) -> None:
        packer = zlib.compressobj(wbits=31)
        flavour: Any = "ollama" if self.kind == "ollama" else "openai"
        content_type = b"application/x-ndjson" if flavour == "ollama" else b"text/event-stream"
        headers = [(b"content-type", content_type), _PACKED]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        first = False
        for piece in answer(flavour, "one", "two"):
            data = packer.compress(encode(flavour, piece)) + packer.flush(zlib.Z_SYNC_FLUSH)  # type: ignore[arg-type]
            await send({"type": "http.response.body", "body": data, "more_body": True})
            if not first and piece == "one":
                first = True
                await self.go.wait()
        await send({"type": "http.response.body", "body": packer.flush()})


_PACKED = (b"content-encoding", b"gzip")
_HEADERS = [(b"content-type", b"application/json"), _PACKED]
