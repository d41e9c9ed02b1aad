"""Whoever waits for the answer to a chat: what was asked, and the way to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from msgspec import Struct

from gateway.call import Call, Receive, Send
from gateway.forms import Form
from gateway.refusal import ClientLeft

T = TypeVar("T")


class Client(Struct):
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


class WhileThere:
    """``async with`` it: raises ``ClientLeft`` inside once the client has closed its connection.

    Our server says so by itself. Over another one somebody has to wait for that, at twice the cost of all else here.
    """

    __slots__ = ("_asked", "_call", "_left", "_receive", "_task", "_watcher")

    def __init__(self, call: Call, receive: Receive) -> None:
        self._call = call
        self._receive = receive
        self._left = False
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[object] = task
        self._asked = task.cancelling()
        line = self._call.line
        if line is None:
            self._watcher = asyncio.get_running_loop().create_task(until_left(self._receive))
            self._watcher.add_done_callback(self._watched)
        elif not line.when_left(self._leave):
            raise ClientLeft

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        watcher = self._watcher
        if watcher is not None:
            watcher.remove_done_callback(self._watched)
            watcher.cancel()
            await asyncio.wait((watcher,))
        elif (line := self._call.line) is not None:
            line.when_left(None)
        if self._left and self._task.uncancel() <= self._asked and kind is asyncio.CancelledError:
            # Of a failure of its own, the server is to hear.
            failure = watcher.exception() if watcher is not None else None
            raise failure or ClientLeft from None

    def _watched(self, _: asyncio.Task[None]) -> None:
        self._leave()

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            self._task.cancel()


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
