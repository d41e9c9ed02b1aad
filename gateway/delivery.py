"""One answer on its way to one client: what is sent when, until its end or the client's."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from msgspec import Struct

from buffer.answer import Answer
from buffer.job import End, Event, Failure, Origin, Usage
from buffer.telemetry import Telemetry
from gateway.call import JSON, Headers, Line, Send, answer
from gateway.dialects.errors import failure_of, headers
from gateway.forms import Form, StreamWriter, WholeWriter

STREAM_HEADERS: Headers = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
_UNTELLABLE = End("failed", Failure("The answer could not be told."))
"""What came cannot be said in the client's dialect, and only all of it together showed that."""


class Source(Protocol):
    """Where an answer's events come from: a ``Follower``."""

    @property
    def started(self) -> str | None:
        """The back end that is at it."""

    @property
    def started_at(self) -> float | None:
        """When it began to be, by ``time.perf_counter``."""

    @property
    def first_at(self) -> float | None:
        """When its first event came, by the same."""

    @property
    def last_at(self) -> float:
        """When its last event came, by the same; 0 before the first."""

    async def next(self, until_at: float = math.inf) -> list[Event] | End:
        """The events that came since, or the end. May be cancelled without loss. Raises ``TimeoutError`` where nothing
        has come by ``until_at`` of the loop's clock.
        """


@dataclass(slots=True)
class Timing:
    """How long clients are left without a word, in seconds."""

    first_byte_s: float = 5.0
    """Until then a failure still gets its own status."""
    heartbeat_s: float = 15.0
    cold_s: float = 4.0
    """How long after its start the gateway waits for the first word of back ends before it says that there are none."""
    title_least_s: float = 1.0
    """How long the title of a chat waits for that chat to come in,"""
    title_most_s: float = 60.0
    """and for it to be answered."""


class Delivery(Struct):
    """An answer's events, from its job to its client. Used once."""

    source: Source
    form: Form
    send: Send
    headers: list[tuple[bytes, bytes]]
    lane: str
    arrived_at: float
    """``time.perf_counter()`` when the request came."""
    telemetry: Telemetry
    submitted_at: float
    """By ``time.perf_counter``."""
    on_first: Callable[[], None]
    """Called once, when the first events are here."""
    about: Callable[[str], Headers]
    """What the headers tell of the back end of that name."""
    line: Line | None = None
    """None: the client came over another server than ours."""
    usage: Usage | None = None
    _last_at: float = 0.0
    _said_at: float = -math.inf
    """When its client was last sent a word that nobody waited for, by ``time.perf_counter``."""

    async def stream(self, writer: StreamWriter, timing: Timing) -> tuple[End, bool]:
        """Sends an answer as it comes. Gives its end, and whether the connection has to be broken off now."""
        try:
            opened, item = await self._pieces(writer, timing)
        finally:
            self._straight(None)
        end = End("done") if writer.finished else End(item.kind, failure_of(item))
        if not opened:
            if end.failure is not None:
                await self._fail(end.failure)
                return end, False
            await self._open_stream()
        last_words = writer.end(end, time.time(), queued_s=self.queued_s or 0.0)
        breaks = self.form.breaks_off(last_words)
        if breaks and end.failure is None:
            end = _UNTELLABLE
        await self.send({"type": "http.response.body", "body": last_words, "more_body": breaks})
        return end, breaks

    async def _pieces(self, writer: StreamWriter, timing: Timing) -> tuple[bool, End]:
        """Sends what comes before the end. Gives that, and whether the headers were sent."""
        opened = False
        clock = asyncio.get_running_loop().time
        quiet_until = clock() + timing.first_byte_s
        while True:
            try:
                item = await self.source.next(quiet_until)
            except TimeoutError:
                quiet_s = time.perf_counter() - self._said_at
                if quiet_s < timing.heartbeat_s:
                    quiet_until = clock() + timing.heartbeat_s - quiet_s
                    continue
                if not opened:
                    opened = True
                    await self._open_stream()
                    self._straight(writer)
                await self._piece(writer.heartbeat(time.time()))
                quiet_until = clock() + timing.heartbeat_s
                continue
            if isinstance(item, End):
                return opened, item
            self._count(item)
            if not opened:
                opened = True
                await self._open_stream()
                self._straight(writer)
            if data := writer.feed(item, time.time()):
                await self._piece(data)
                # Hidden thinking and tool calls that are told whole leave a client without a word for minutes.
                quiet_until = clock() + timing.heartbeat_s

    def _straight(self, writer: StreamWriter | None) -> None:
        """From now on what comes is sent in the turn in which it does, while its client takes it: to wake whoever waits
        for it costs more than all else about a token. None: no more.
        """
        if isinstance(self.source, Answer) and self.line is not None:
            self.source.straight_to(None if writer is None else partial(self._pass_on, writer, self.line))

    def _pass_on(self, writer: StreamWriter, line: Line, events: list[Event]) -> bool:
        if not line.flows:
            return False
        self._count(events)
        if data := writer.feed(events, time.time()):
            line.write(data)
            self._said_at = self._last_at
        return True

    async def whole(self, writer: WholeWriter) -> End:
        """Sends an answer in one piece, once it is there."""
        while not isinstance(item := await self.source.next(), End):
            self._count(item)
            # They come all at once, at the end; an answer's figures tell of when the engine said them.
            begun = 1 + next((i for i, event in enumerate(item) if type(event) is not Origin), 0)
            writer.feed(item[:begun], _wall(self.source.first_at or self.source.last_at))
            writer.feed(item[begun:], _wall(self.source.last_at))
        end = End(item.kind, failure_of(item))
        status, body = writer.end(end, time.time(), queued_s=self.queued_s or 0.0)
        more = headers(end.failure) if end.failure is not None and status != 200 else ()
        await answer(self.send, status, JSON, body, [*self._all_headers(), *more])
        if status == 200:
            return End("done")
        return _UNTELLABLE if end.failure is None else end

    @property
    def queued_s(self) -> float | None:
        """How long the job waited for a back end to take it; None: none has."""
        at = self.source.started_at
        return None if at is None else max(0.0, at - self.submitted_at)

    def _piece(self, data: bytes) -> Awaitable[None]:
        return self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def _open_stream(self) -> None:
        content_type = (b"content-type", self.form.stream_type)
        await self.send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [content_type, *STREAM_HEADERS, *self._all_headers()],
            }
        )

    async def _fail(self, failure: Failure) -> None:
        more = [*self._all_headers(), *headers(failure)]
        await answer(self.send, failure.status, JSON, self.form.error(failure), more)

    def _all_headers(self) -> Headers:
        if backend := self.source.started:
            return [*self.headers, *self.about(backend)]
        return self.headers

    def _count(self, events: list[Event]) -> None:
        now_at = time.perf_counter()
        if self._last_at:
            self.telemetry.inter_token[self.lane].observe(now_at - self._last_at)
        else:
            first_at = self.source.first_at or now_at
            self.telemetry.time_to_first_token[self.lane].observe(first_at - self.arrived_at)
            self.on_first()
        self._last_at = now_at
        for event in events:
            if type(event) is Usage:
                self.usage = event


def _wall(at: float) -> float:
    """An instant of ``time.perf_counter`` in seconds since 1970."""
    return time.time() - (time.perf_counter() - at)
