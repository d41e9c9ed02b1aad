"""The answer to one request under way: from which jobs it comes, and what becomes of them without its client."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from msgspec import Struct

from buffer.follower import Follower
from buffer.job import Chat, End, Usage
from gateway.delivery import Source
from gateway.intake import Order

log = logging.getLogger("doublebuffer.gateway")


class Outlives(Protocol):
    """What is to be known of jobs that may outlive their client."""

    @property
    def det(self) -> bool:
        """Their client has said that it may leave, and needs the id for that early."""

    async def stays(self) -> bool:
        """Asked once it has left: whether they go on."""

    async def ended(self, end: End) -> None:
        """They have ended, with or without their client."""


class Hears(Protocol):
    """Whoever wants to hear what becomes of jobs."""

    def hear(self, order: Order, follower: Follower) -> Source:
        """What is to be read in place of the follower: it gives the same events, and the same end."""


class Detached:
    """Their client has said that they do."""

    det = True

    async def stays(self) -> bool:
        return True

    async def ended(self, end: End) -> None:
        pass


class Outliving:
    """The jobs whose clients have left, each in a task. ``run`` has to run beside."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None

    def go_on(self, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        """Does ``work`` beside everything else. False: the application has ended."""
        if self._group is None:
            return False
        self._group.create_task(self._alone(work))
        return True

    @staticmethod
    async def _alone(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the border of a job: a defect of ours costs it, and not all others
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("an answer without its client: %s at %s:%s", type(error).__name__, where.filename, where.lineno)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None


def _nothing() -> None:
    pass


class Answering(Struct):
    id: str
    """Of the first job."""
    lane: str
    chat: Chat
    """Of the first; they differ in nothing but their prompts."""
    sources: Sequence[Source]
    submitted_at: float
    """By ``time.perf_counter``."""
    created: float
    """When the jobs' own request came, in seconds since 1970: whoever joins it gets the same answer."""
    det: bool = False
    """As ``Outlives.det``."""
    on_first: Callable[[], None] = _nothing
    """Called once, when the first events are here."""


async def outlived(
    followers: Sequence[Follower], sources: Sequence[Source], on_first: Callable[[], None]
) -> tuple[End, list[Usage | None]]:
    """Follows jobs to their end for a client that has left; gives the end, and what each has used.

    So the gateway goes on looking after them: a worker's death, a store that lost them, a wait that got too long.
    """
    async with asyncio.TaskGroup() as group:
        both = zip(followers, sources, strict=True)
        reads = [group.create_task(_outlived(source, on_first, begun=follower.given > 0)) for follower, source in both]
    ends = [read.result() for read in reads]
    end = next((end for end, _ in ends if end.kind != "done"), ends[0][0])
    return end, [usage for _, usage in ends]


async def _outlived(source: Source, on_first: Callable[[], None], *, begun: bool) -> tuple[End, Usage | None]:
    usage: Usage | None = None
    while not isinstance(item := await source.next(), End):
        if not begun:
            begun = True
            on_first()
        usage = next((event for event in reversed(item) if isinstance(event, Usage)), usage)
    return item, usage
