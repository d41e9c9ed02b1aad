"""An ASGI app on a socket, ended by an event instead of by uvicorn's own signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import uvicorn

from buffer.setting_sources import SettingsError
from doublebuffer.guard import ClientLimits, Guarded, client_limits

BACKLOG = 2048
LAST_WORDS_S = 5


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The command listens to signals, for all its parts together."""
        yield


MOST_UNSENT = 128 * 1024
"""Bytes that the kernel keeps for a client beyond what is on its way to him; else it takes four megabytes for one who
does not read, and gateway, worker and Redis hold each of them too. Connections have it of the listener.
"""


def bind(host: str, port: int, *, names: str = "DOUBLEBUFFER_HOST and DOUBLEBUFFER_PORT") -> socket.socket:
    """A listening socket; connections wait in it until somebody accepts.

    Raises ``SettingsError`` with ``names``, the settings that the address came from.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MOST_UNSENT)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise SettingsError(f"{names}: cannot listen on {host}:{port}: {error.strerror or error}.") from None
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """The socket's address as a URL that this machine can call."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: Any,
    listener: socket.socket,
    stop: asyncio.Event,
    *,
    drain_s: float,
    last_call: Callable[[], Awaitable[None]] | None = None,
    limits: ClientLimits | None = None,
) -> None:
    """Serves until ``stop``, then closes the socket, lets requests end for ``drain_s``, and returns.

    ``limits``: what clients may cost; unset, ``client_limits()``.
    ``last_call`` is made when that time is over and requests are left; they have ``LAST_WORDS_S`` to end by it.
    Raises ``RuntimeError`` if the app does not start; the reason is in the log.
    """
    config = uvicorn.Config(
        app,
        http=partial(Guarded, limits=limits or client_limits()),  # type: ignore[arg-type]
        ws="none",
        loop="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=math.ceil(drain_s) + LAST_WORDS_S,
        timeout_keep_alive=75,
    )
    server = _Server(config)

    async def end_when_told() -> None:
        await stop.wait()
        server.should_exit = True
        if last_call is not None:
            await asyncio.sleep(drain_s)
            await last_call()

    async with asyncio.TaskGroup() as group:
        ending = group.create_task(end_when_told())
        try:
            await server.serve(sockets=[listener])
        finally:
            ending.cancel()
    if not server.started:
        raise RuntimeError("the HTTP server did not start")
