"""Several jobs' answers as one: what a client gets that sent several prompts at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence

from buffer.job import End, Event, Origin, Usage
from gateway.delivery import Source


class Merged:
    """A ``Source`` over the sources of jobs. The choices of each come after those of the ones before it.

    Every prompt is a job of its own, so that each takes its own place in a lane and in an engine, is tried again by
    itself, and is cancelled with the others when their client leaves. One that fails ends the whole answer.
    """

    def __init__(self, sources: Sequence[Source], each: int) -> None:
        """``each``: how many choices a job has."""
        self.usages: list[Usage | None] = [None] * len(sources)
        """What the engines counted for each job; None where it has not ended."""
        self._sources = sources
        self._each = each
        self._left = set(range(len(sources)))
        self._reads: dict[asyncio.Task[list[Event] | End], int] = {}
        self._end: End | None = None
        self._named = False
        self._group: asyncio.TaskGroup | None = None

    def open(self, group: asyncio.TaskGroup) -> None:
        """Reads in tasks of ``group``, one for each job at most. None is left once the end has been given."""
        self._group = group

    @property
    def started(self) -> str | None:
        """The back end of the first that has one."""
        return next((source.started for source in self._sources if source.started is not None), None)

    @property
    def started_at(self) -> float | None:
        """When the first of them began."""
        return min((source.started_at for source in self._sources if source.started_at is not None), default=None)

    @property
    def first_at(self) -> float | None:
        """When the first event of any of them came."""
        return min((source.first_at for source in self._sources if source.first_at is not None), default=None)

    @property
    def last_at(self) -> float:
        """When the last event of any of them came."""
        return max(source.last_at for source in self._sources)

    async def next(self, until_at: float = math.inf) -> list[Event] | End:
        """The events that came since, or the end. May be cancelled without loss. Raises ``TimeoutError`` where nothing
        has come by ``until_at`` of the loop's clock.
        """
        async with asyncio.timeout_at(until_at):
            return await self._next()

    async def _next(self) -> list[Event] | End:
        while self._end is None:
            self._read_on()
            done, _ = await asyncio.wait(self._reads, return_when=asyncio.FIRST_COMPLETED)
            events = [event for read in sorted(done, key=self._reads.__getitem__) for event in self._take(read)]
            if not self._left and self._end is None:
                self._end = End("done")
                events += total(self.usages)
            if events:
                return events
        return self._end

    def _read_on(self) -> None:
        assert self._group is not None
        for place in self._left.difference(self._reads.values()):
            self._reads[self._group.create_task(_next(self._sources[place]))] = place

    def _take(self, read: asyncio.Task[list[Event] | End]) -> Iterator[Event]:
        place, item = self._reads.pop(read), read.result()
        if self._end is not None:
            return
        if isinstance(item, End):
            self._left.discard(place)
            if item.kind != "done":
                self._end = item
                for other in self._reads:
                    other.cancel()
            return
        for event in item:
            if isinstance(event, Usage):
                self.usages[place] = event
            elif isinstance(event, Origin):
                if not self._named:
                    self._named = True
                    yield event
            else:
                event.index += place * self._each
                yield event


def total(usages: Sequence[Usage | None]) -> list[Event]:
    """All counts added up, as an event: each prompt was read by itself. None where nothing was counted."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return []
    cached = [usage.cached for usage in known if usage.cached is not None]
    return [
        Usage(
            sum(usage.prompt for usage in known),
            sum(usage.completion for usage in known),
            sum(cached) if cached else None,
        )
    ]


async def _next(source: Source) -> list[Event] | End:
    return await source.next()
