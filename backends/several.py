"""Several requests' events one after the other, and what is put among one's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing

from backends.base import Stream
from buffer.job import Content, Event, Origin, Usage


async def later(ask: Callable[[], Stream]) -> Stream:
    """The events of a request that is made when the first of them is wanted."""
    async with aclosing(ask()) as stream:
        async for events in stream:
            yield events


async def echoed(stream: Stream, prompt: str) -> Stream:
    """One answer's events with the prompt before its first word. Until then nothing is said, and it can be tried again
    elsewhere."""
    begun = False
    async with aclosing(stream):
        async for events in stream:
            if begun or all(isinstance(event, Origin) for event in events):
                yield events
                continue
            begun = True
            at = next(place for place, event in enumerate(events) if not isinstance(event, Origin))
            yield [*events[:at], Content(prompt), *events[at:]]


async def one_by_one(streams: Sequence[Stream]) -> Stream:
    """The events of ``n`` requests for one answer each, as those of one request for ``n``. The first error ends all.

    Each begins when the one before has ended: together they have one place at the engine.
    """
    usages: dict[int, Usage] = {}
    try:
        for index, stream in enumerate(streams):
            async for events in stream:
                if renumbered := _renumbered(events, index, usages):
                    yield renumbered
        if usages:
            yield [_sum(usages)]
    finally:
        for stream in streams:
            await stream.aclose()


def _renumbered(events: list[Event], index: int, usages: dict[int, Usage]) -> list[Event]:
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Usage):
            usages[index] = event
        elif isinstance(event, Origin):
            if index == 0:
                kept.append(event)
        else:
            event.index = index
            kept.append(event)
    return kept


def _sum(usages: Mapping[int, Usage]) -> Usage:
    """The prompt counts once, the answers and the times add up."""
    all_of = list(usages.values())
    thought = [usage.reasoning for usage in all_of if usage.reasoning is not None]
    return Usage(
        prompt=max(usage.prompt for usage in all_of),
        completion=sum(usage.completion for usage in all_of),
        cached=all_of[0].cached,
        reasoning=sum(thought) if thought else None,
        prompt_ns=sum(usage.prompt_ns or 0 for usage in all_of) or None,
        completion_ns=sum(usage.completion_ns or 0 for usage in all_of) or None,
        load_ns=max(usage.load_ns or 0 for usage in all_of) or None,
    )
