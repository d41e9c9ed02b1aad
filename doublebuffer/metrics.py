"""A worker's own ``/metrics``, on a port of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from buffer.settings import Settings
from buffer.telemetry import CONTENT_TYPE, Telemetry
from doublebuffer.serving import bind, serve, url_of
from gateway.auth import Keyring

LAST_SCRAPE_S = 1.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@contextlib.asynccontextmanager
async def metrics_served(settings: Settings, telemetry: Telemetry) -> AsyncIterator[str]:
    """Serves what this process counts, where a port is set; the address, empty where none is.

    What stands in Redis is left to the gateways' metrics, so that no sum over all processes counts it twice.
    Raises ``SettingsError`` if the port cannot be had.
    """
    if not settings.metrics_port:
        yield ""
        return
    stop = asyncio.Event()
    with bind(settings.host, settings.metrics_port, names="DOUBLEBUFFER_METRICS_PORT") as listener:
        _keep_from_children(listener)
        address = f"{url_of(listener)}/metrics"
        async with asyncio.TaskGroup() as group:
            app = _app(telemetry, Keyring(settings.api_keys))
            group.create_task(serve(app, listener, stop, drain_s=LAST_SCRAPE_S))
            try:
                yield address
            finally:
                stop.set()


def _keep_from_children(listener: socket.socket) -> None:
    """A process forked from this one, as a batch worker's work-horse is, would hold the port beyond its end."""
    found = weakref.ref(listener)

    def close() -> None:
        if (own := found()) is not None:
            own.close()

    os.register_at_fork(after_in_child=close)


def _app(telemetry: Telemetry, keyring: Keyring) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            status, kind, body = 404, "text/plain", b"not found\n"
            if keyring.holder(scope["path"], dict(scope["headers"])) is None:
                status, body = 401, b"a valid API key is needed\n"
            elif scope["path"] == "/metrics":
                status, kind, body = 200, CONTENT_TYPE, telemetry.exposition(None)
            headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})

    return app


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
