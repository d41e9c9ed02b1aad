"""One request and its answer, read as it comes; and several of them one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

import msgspec

from backends.base import BackendError
from backends.client import Client
from backends.failures import ContextTooLongError, broken, early_end
from backends.http import Connection
from backends.traced import traced
from backends.trim import trim
from backends.wire import LINE_LIMIT
from buffer.job import Chat, Content, Event, Origin, Usage
from buffer.tracing import CURRENT

COMPLETE_S = 2.0
"""How long counts may still come after every answer has ended."""
TRIMS = 3
"""How often a prompt that is too long is cut and sent again."""

Stream = AsyncGenerator[list[Event], None]


class Reader(Protocol):
    """Takes an answer's bytes, gives its events. It raises nothing: what came before an error is not to be lost."""

    @property
    def failure(self) -> BackendError | None:
        """What went wrong, after the events given so far."""
        ...

    @property
    def complete(self) -> bool:
        """Every answer has ended."""
        ...

    @property
    def cut(self) -> bool:
        """Every answer has ended, though the engine would go on."""
        ...

    @property
    def over(self) -> bool:
        """The engine has said that nothing more comes."""
        ...

    @property
    def lively(self) -> bool:
        """The model has said or thought something."""
        ...

    @property
    def seen(self) -> int:
        """How many messages of the engine have come, comments not counted."""
        ...

    def feed(self, data: bytes) -> list[Event]: ...

    def flush(self) -> list[Event]:
        """At the end of the bytes."""
        ...

    def whole(self, body: bytes) -> list[Event]:
        """An answer that came in one piece."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    first_s: float
    """From the request to the model's first word."""
    stall_s: float
    """Between two messages of the engine after that."""


def exchange(
    client: Client, path: str, body: bytes, reader: Reader, *, headers: Mapping[str, str], patience: Patience
) -> Stream:
    """The events of one request. Closing it closes the connection. Raises ``BackendError``."""
    attempt = CURRENT.get()
    if attempt is None:
        return _exchange(client, path, body, reader, headers=headers, patience=patience)
    return traced(
        attempt.call(path),
        lambda more: _exchange(client, path, body, reader, headers={**headers, **more}, patience=patience),
    )


async def _exchange(
    client: Client, path: str, body: bytes, reader: Reader, *, headers: Mapping[str, str], patience: Patience
) -> Stream:
    loop = asyncio.get_running_loop()
    until_at = loop.time() + patience.first_s
    async with (
        client.post(path, body, headers, until_at=until_at) as response,
        aclosing(client.pieces(response)) as pieces,
    ):
        if _is_page(client, response):
            whole = bytearray()
            while (data := await client.next(pieces, until_at)) is not None:
                whole += data
                if len(whole) > LINE_LIMIT:
                    raise early_end(client.name, "sent more than any answer can be")
            if events := reader.whole(bytes(whole)):
                yield events
            if reader.failure is not None:
                raise client.hushed(reader.failure)
            return
        while not reader.over:
            seen = reader.seen
            try:
                data = await client.next(pieces, until_at)
            except BackendError:
                if reader.complete:
                    return
                raise
            events = reader.flush() if data is None else reader.feed(data)
            if events:
                yield events
            if reader.failure is not None:
                raise client.hushed(reader.failure)
            if data is None or reader.cut:
                return
            if reader.complete:
                until_at = loop.time() + COMPLETE_S
            elif reader.lively and reader.seen > seen:
                until_at = loop.time() + patience.stall_s
        await client.tail(pieces)


def _is_page(client: Client, response: Connection) -> bool:
    """Whether the answer comes whole, as JSON. Raises ``BackendError`` on a page for people."""
    content_type: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "text/html":
        raise early_end(client.name, "answered with a web page; is its address right?")
    return content_type == "application/json"


async def guarded(chat: Chat, attempt: Callable[[Chat], Stream]) -> Stream:
    """An attempt's events, with its errors named by whether something had come before.

    A prompt that is too long loses its oldest turns and is sent again, where the client's API promises that.
    """
    begun = False
    for trims_left in range(TRIMS, -1, -1):
        try:
            async with aclosing(attempt(chat)) as stream:
                async for events in stream:
                    begun = True
                    yield events
        except ContextTooLongError as error:
            if chat.prompt is not None:
                error.param = "prompt"
            shorter = trim(chat.messages, error.share)
            if begun or not shorter or not trims_left or chat.front != "ollama" or not chat.truncate:
                raise
            chat = msgspec.structs.replace(chat, messages=shorter)
        except BackendError as error:
            if begun and error.kind != "client":
                raise broken(error) from error
            raise
        else:
            return


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
