"""``doublebuffer gateway``: the HTTP ingress alone, in one process or in several on one port."""

from __future__ import annotations

import asyncio
import socket
import sys

from buffer.settings import Settings
from doublebuffer import VERSION
from doublebuffer.counting import telling_of
from doublebuffer.fleet import Fleet
from doublebuffer.serving import bind, serve, url_of
from doublebuffer.signals import stop_on_signals
from doublebuffer.starting import connect, needs_redis
from doublebuffer.telling import store_line
from gateway.app import create_app


async def run_gateway(settings: Settings, arguments: list[str]) -> int:
    """Serves until a signal; the exit code. ``arguments``: the command line, for further processes.

    Raises ``SettingsError``.
    """
    needs_redis(settings, "gateway")
    with stop_on_signals() as stop:
        listener = bind(settings.host, settings.port)
        try:
            store = await connect(settings)
            print(f"Doublebuffer {VERSION} gateway", flush=True)
            print(f"  address    {url_of(listener)}", flush=True)
            print(f"  store      {store_line(settings)}", flush=True)
            if settings.processes > 1:
                await store.aclose()
                return await Fleet(settings, listener, arguments).run(stop)
            try:
                async with telling_of("doublebuffer-gateway") as telemetry:
                    app = create_app(settings, store, telemetry=telemetry)
                    await serve(app, listener, stop, drain_s=settings.drain_seconds, last_call=app.end_answers)
            finally:
                await store.aclose()
        finally:
            listener.close()
    return 0


async def run_gateway_process(settings: Settings, descriptor: int) -> int:
    """One of several processes: serves on an inherited socket until a signal, or until its parent is gone."""
    with stop_on_signals() as stop, socket.socket(fileno=descriptor) as listener:
        listener.setblocking(False)
        store = await connect(settings)
        try:
            async with telling_of("doublebuffer-gateway") as telemetry, asyncio.TaskGroup() as group:
                orphaned = group.create_task(_stop_without_parent(stop))
                app = create_app(settings, store, telemetry=telemetry)
                await serve(app, listener, stop, drain_s=settings.drain_seconds, last_call=app.end_answers)
                orphaned.cancel()
        finally:
            await store.aclose()
    return 0


async def _stop_without_parent(stop: asyncio.Event) -> None:
    """The parent holds the other end of standard input and never writes."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    stop.set()
