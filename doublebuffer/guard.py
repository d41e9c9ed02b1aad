"""What a connection may cost before anybody knows who is at its other end: time, bytes, and its own number.

uvicorn bounds none of this. What a request costs once it is known is the application's business.
"""

from __future__ import annotations

import asyncio
import math
import resource
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httptools

from doublebuffer.exchanging import Exchanging
from doublebuffer.gathered import Gathered

_SPARE_FILES = 256
"""Of a process's open files, for everything that is no client."""
_MOST_CONNECTIONS = 16_384
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Of one connection, but for ``connections``."""

    connections: int
    """Open at a time, in this process."""
    head_bytes: int = 64 * 1024
    """Request line and headers."""
    head_s: float = 20.0
    """From its first byte, or the connection's beginning, to its last."""
    pipelined: int = 16
    """Requests sent ahead while one is answered."""
    linger_s: float = 2.0
    """How long a body that nobody wants is let in after the answer, so that its sender reads that."""
    unread_s: float = 120.0
    """How long an answer may wait for a client that reads nothing of it: it holds a place at an engine."""


def client_limits() -> ClientLimits:
    """As many connections as this process may have open files for, raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_CONNECTIONS + _SPARE_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return ClientLimits(connections=max(16, min(_MOST_CONNECTIONS, soft - _SPARE_FILES)))


class Guarded(Exchanging):
    """uvicorn's protocol with an end to every wait for the client, and a bound to all that it may send unread."""

    def __init__(self, *args: Any, limits: ClientLimits, **more: Any) -> None:
        super().__init__(*args, **more)
        self._limits = limits
        self._wait: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._in_head = False
        """The client is amid a request's head."""
        self._piece_bytes = 0
        """What is being parsed now."""
        self._first_bytes = 0
        """The piece in which the head under way began, with whatever came before it there,"""
        self._fed_bytes = 0
        """and what of it came after that: a header is parsed when it is whole."""
        self._trailer_bytes = 0
        self._too_large = False
        self._replays = False
        """The parser is told what this one knows."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Gathered(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self._limits.connections:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, b"retry-after: 5\r\n")
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._idle.set(math.inf)
        self._was_body = False
        self._piece_bytes = len(data)
        if self._in_head:
            self._fed_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as asked:
            self._read_on(data[asked.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(_TOO_LARGE if self._too_large else HTTPStatus.BAD_REQUEST)
            return
        if self._in_head:
            if self._fed_bytes > self._limits.head_bytes or self._is_large():
                self._refuse(_TOO_LARGE)
            elif self._wait is None:
                self._expect_head()
        elif not self._in_body and (self.cycle is None or self.cycle.response_complete):
            if self._was_body:
                # The end of a body came behind its answer.
                self._rest()
            elif self._wait is None:
                self._expect_head()

    def _read_on(self, rest: bytes) -> None:
        """Nothing is ever upgraded, and clients that ask for it (Java's, for each of their first requests) have a body
        like others. The parser gives up at the head, so another one is told where in the request it is."""
        framing = (b"%b: %b\r\n" % header for header in self.headers if header[0] in _FRAMING)
        self.parser = httptools.HttpRequestParser(self)
        self._replays = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        self._replays = False
        if rest and not self.transport.is_closing():
            self.data_received(rest)

    def on_message_begin(self) -> None:
        if self._replays:
            return
        self.url, self.headers = b"", []
        self._in_head = True
        self._first_bytes, self._fed_bytes, self._trailer_bytes = self._piece_bytes, 0, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            self.headers.append((name.lower(), value))
            return
        # Behind a body, nobody wants it.
        self._trailer_bytes += len(name) + len(value)
        if self._trailer_bytes > self._limits.head_bytes:
            self._too_large = True
            raise ValueError("the trailers of a request are too large")

    def _is_large(self) -> bool:
        """Whether what has been parsed of a head is too much. It is no more than what came."""
        most = self._limits.head_bytes
        if self._first_bytes + self._fed_bytes <= most:
            return False
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > most

    def on_headers_complete(self) -> None:
        if self._replays:
            return
        if self._is_large():
            self._too_large = True
            raise ValueError("the head of a request is too large")
        if self._wait is not None:
            self._expect_nothing()
        self._in_head, self._in_body = False, True
        super().on_headers_complete()
        if len(self.pipeline) > self._limits.pipelined:
            raise ValueError("too many requests were sent ahead")

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete and not self.transport.is_closing():
            self.loop.call_later(self._limits.linger_s, self._end_unwanted, self.cycle)

    def _end_unwanted(self, cycle: object) -> None:
        if self._in_body and self.cycle is cycle:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_again()

    def _look_again(self) -> None:
        size = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self._limits.unread_s, self._leave_unread, size)

    def _leave_unread(self, size: int) -> None:
        if self.transport.get_write_buffer_size() < size:
            self._look_again()
        else:
            self.transport.abort()

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _expect_head(self) -> None:
        self._wait = self.loop.call_later(self._limits.head_s, self._head_is_late)

    def _expect_nothing(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None

    def _head_is_late(self) -> None:
        self._wait = None
        if self._in_head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, headers: bytes = b"") -> None:
        """The last word on this connection. Amid another answer there is no place for one."""
        self._expect_nothing()
        if self.transport.is_closing():
            return
        if self.pipeline or (self.cycle and self.cycle.response_started and not self.cycle.response_complete):
            self.transport.abort()
            return
        text = status.phrase.encode()
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n"
            b"%b\r\n%b" % (status, text, len(text), headers, text)
        )
        self.transport.close()
