"""Loops beside a test, and answers as a client reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from buffer.follower import Follower
from buffer.inbox import Inbox
from buffer.job import Chat, Content, End
from tests.buffer.jobs import job


@asynccontextmanager
async def beside(*loops: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Runs these beside the block, and stops them after it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run(loop)) for loop in loops]
        yield
        for task in tasks:
            task.cancel()


async def _run(loop: Callable[[], Awaitable[None]]) -> None:
    await loop()


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Asks until it is so; what is waited for happens in another task."""
    async with asyncio.timeout(10):
        while not (value := await condition()):
            await asyncio.sleep(0.005)
        return value


async def answer(follower: Follower) -> tuple[str, End]:
    """A whole answer: its text and its end."""
    text = ""
    async with asyncio.timeout(20):
        while not isinstance(got := await follower.next(), End):
            text += "".join(event.text for event in got if isinstance(event, Content))
    return text, got


async def submitted(inbox: Inbox, id: str, *, chat: Chat | None = None, whole: bool = False, **fields: Any) -> Follower:
    _, follower = await inbox.submit(job(id, **fields), chat=chat, whole=whole)
    assert follower is not None
    return follower
