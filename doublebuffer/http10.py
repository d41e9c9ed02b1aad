"""Answers to HTTP/1.0 clients. uvicorn's fast protocol sends them chunks, which they take for the body's own bytes;
nginx asks in HTTP/1.0 unless it is told otherwise."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from doublebuffer.guard import Guarded


class Protocol(Guarded):
    """A body of unknown length ends with the connection, where the client knows no other way."""

    def on_headers_complete(self) -> None:
        before = self.cycle
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and self.cycle is not before:
            _send_plainly(self.cycle)


def _send_plainly(cycle: RequestResponseCycle) -> None:
    framed_send = cycle.send
    plain = False

    async def send(message: Any) -> None:
        nonlocal plain
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            plain = b"content-length" not in names
            if plain:
                cycle.chunked_encoding = False
        elif plain:
            # What it is told to expect it lets through.
            cycle.expected_content_length = len(message.get("body", b""))
        await framed_send(message)

    cycle.send = send  # type: ignore[method-assign]
