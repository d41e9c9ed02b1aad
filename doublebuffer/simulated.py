"""The simulated back end beside ``doublebuffer up``, for a machine that has no engine yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from buffer.backend import BackendSpec
from doublebuffer.serving import bind, serve, url_of
from simulate.server import create_app

NAME = "simulated"
LAST_ANSWERS_S = 2.0


@contextlib.asynccontextmanager
async def simulated_engine() -> AsyncIterator[BackendSpec]:
    """A simulated engine on a free loopback port, gone with the context."""
    listener = bind("127.0.0.1", 0)
    spec = BackendSpec(name=NAME, kind="openai", url=url_of(listener))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(create_app(), listener, stop, drain_s=LAST_ANSWERS_S))
        try:
            yield spec
        finally:
            stop.set()
