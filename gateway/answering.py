"""The answer to one request under way: from which jobs it comes, and what becomes of them without its client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from buffer.follower import Follower
from buffer.job import Chat, End, Usage
from gateway.delivery import Source

Stays = Callable[[], Awaitable[bool]]
"""Of jobs that may outlive their client: asked once it has left, tells whether they do."""


def _nothing() -> None:
    pass


def _no_timers(_: asyncio.TaskGroup) -> Sequence[asyncio.TimerHandle]:
    return ()


@dataclass(frozen=True, slots=True)
class Answering:
    id: str
    """Of the first job."""
    lane: str
    chat: Chat
    """Of the first; they differ in nothing but their prompts."""
    sources: Sequence[Source]
    submitted_at: float
    """By ``time.perf_counter``."""
    det: bool = False
    """Its client may leave, and needs the id for that early."""
    on_first: Callable[[], None] = _nothing
    """Called once, when the first events are here."""
    timers: Callable[[asyncio.TaskGroup], Sequence[asyncio.TimerHandle]] = _no_timers
    """Sets what is to happen while the client waits, in tasks of this group."""


async def stays() -> bool:
    """Of a client that has said so: its job goes on."""
    return True


async def outlived(followers: Sequence[Follower], on_first: Callable[[], None]) -> tuple[End, list[Usage | None]]:
    """Follows jobs to their end for a client that has left; gives the end, and what each has used.

    So the gateway goes on looking after them: a worker's death, a store that lost them, a wait that got too long.
    """
    async with asyncio.TaskGroup() as group:
        reads = [group.create_task(_outlived(follower, on_first)) for follower in followers]
    ends = [read.result() for read in reads]
    end = next((end for end, _ in ends if end.kind != "done"), ends[0][0])
    return end, [usage for _, usage in ends]


async def _outlived(follower: Follower, on_first: Callable[[], None]) -> tuple[End, Usage | None]:
    usage: Usage | None = None
    begun = follower.given > 0
    while not isinstance(item := await follower.next(), End):
        if not begun:
            begun = True
            on_first()
        usage = next((event for event in reversed(item) if isinstance(event, Usage)), usage)
    return item, usage
