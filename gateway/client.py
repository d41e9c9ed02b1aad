"""Whoever waits for the answer to a chat: what was asked, and the way to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from gateway.call import Call, Receive, Send
from gateway.forms import Form
from gateway.refusal import ClientLeft

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Client:
    form: Form
    call: Call
    receive: Receive
    send: Send
    arrived_at: float
    """``time.perf_counter()`` when the request came."""
    created: float
    """The same instant in seconds since 1970."""
    cache: bytes = b""
    """What the answer cache had for it; empty: it was not asked."""

    @property
    def is_open_webui(self) -> bool:
        agent = self.call.header(b"user-agent").lower()
        if "open-webui" in agent or "openwebui" in agent:
            return True
        return any(name.startswith(b"x-openwebui-") for name in self.call.headers)


async def until_left(receive: Receive) -> None:
    """Raises ``ClientLeft`` once the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientLeft


async def while_there(receive: Receive, waiting: Awaitable[None]) -> bool:
    """Waits; False as soon as the client leaves."""
    there = False
    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(until_left(receive))
            await waiting
            there = True
            watcher.cancel()
    except* ClientLeft:
        pass
    return there


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` gives. It is done to its end also where whoever waits for it is cancelled, once, meanwhile; then
    the cancellation goes on.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
    finally:
        task.cancel()
