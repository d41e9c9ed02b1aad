"""One request and its answer: what uvicorn does, without what most requests have no need of.

uvicorn makes an event for each request, copies its body, and looks at each name and value of an answer's headers by
itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

from gateway.call import LINE, Headers, Scope

if TYPE_CHECKING:
    from doublebuffer.exchanging import Exchanging

_LENGTH, _ENCODING, _CONNECTION = b"content-length: ", b"transfer-encoding: ", b"connection: "
_FRAMING = frozenset({_ENCODING, _CONNECTION})
_NAMES: dict[bytes, bytes] = {}
"""Of a header → how its line begins. The application knows a few, and uses them over and over."""
_MOST_NAMES = 256
_NO_VALUES = bytes(one for one in range(256) if HEADER_VALUE_RE.match(bytes([one])))
"""What may not stand in a header's value. An expression that looks for it takes ten times as long."""
_BODILESS = frozenset({204, 304})


class Exchange(RequestResponseCycle):
    """As uvicorn's, and a ``gateway.call.Line``."""

    # How a request begins; most never change some of it.
    disconnected = False
    body: bytes | bytearray = b""  # type: ignore[assignment]
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0
    _fresh = False
    """Something has come that ``receive`` has not told yet."""
    _event: asyncio.Event | None = None
    """Whoever is in ``receive`` waits for it; most bodies are here before anybody asks."""
    _on_left: Callable[[], None] | None = None

    def __init__(self, line: Exchanging, scope: Scope, *, expects_100: bool, keep_alive: bool) -> None:
        self.scope = scope  # type: ignore[assignment]
        self.transport = line.transport
        self.flow = line.flow
        self.logger = line.logger
        self.access_logger = line.access_logger
        self.access_log = line.access_log
        self.default_headers = line.server_state.default_headers
        self.on_response = line.on_response_complete
        self.waiting_for_100_continue = expects_100
        self.keep_alive = keep_alive
        scope[LINE] = self

    @property
    def message_event(self) -> asyncio.Event:  # type: ignore[override]
        """Of whoever waits for what comes, as uvicorn calls it."""
        if self._event is None:
            self._event = asyncio.Event()
        return self._event

    def came(self, data: bytes = b"", *, more: bool = True) -> None:
        """A piece of the body is here, or its end."""
        if not self.body:
            self.body = data
        elif data:
            if isinstance(self.body, bytes):
                self.body = bytearray(self.body)
            self.body += data
        self.more_body = more
        self._fresh = True
        if self._event is not None:
            self._event.set()

    def body_here(self) -> bytes | None:
        if self.more_body or self.disconnected or self.response_complete or self.waiting_for_100_continue:
            return None
        body, self.body = bytes(self.body), b""
        self._fresh = False
        if self.flow.read_paused:
            self.flow.resume_reading()
        return body

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        if self.response_started or self.access_log or self.flow.write_paused:
            return False
        if not self.disconnected:
            self._send_body(body, more=False, head=self._begin(status, headers))
        return True

    def when_left(self, action: Callable[[], None] | None) -> bool:
        self._on_left = action
        if self.flow.read_paused:
            # As ``receive``: whoever waits for a client's leaving wants to read on.
            self.flow.resume_reading()
        return not self.disconnected

    @property
    def flows(self) -> bool:
        return not (self.flow.write_paused or self.disconnected or self.transport.is_closing())

    def write(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked_encoding else data)

    def left(self) -> None:
        """The connection is gone."""
        if self.disconnected and self._on_left is not None:
            self._on_left()

    async def receive(self) -> Any:
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not self.disconnected and not self.response_complete:
            self.flow.resume_reading()
            if not self._fresh:
                self.message_event.clear()
                await self.message_event.wait()
            self._fresh = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if self.response_started:
            if kind == "http.response.body" and not self.response_complete:
                self._send_body(message.get("body", b""), more=message.get("more_body", False))
                return
        elif kind == "http.response.start" and not self.access_log:
            self.transport.write(self._begin(message["status"], message.get("headers", ())))
            return
        # To be written to the log; or none that may come now, and uvicorn says so.
        await super().send(message)

    def _begin(self, status: int, own: Headers) -> bytes:
        """The answer's head. All values at once are tried for single characters. Raises ``RuntimeError``."""
        self.response_started = True
        self.waiting_for_100_continue = False
        lines = [STATUS_LINE[status]]
        values = []
        closes = False
        for name, value in (*self.default_headers, *own):
            begins = _NAMES.get(name) or _begins(name)
            lines += (begins, value, b"\r\n")
            values.append(value)
            if begins == _LENGTH and self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
            elif begins in _FRAMING:
                closes = self._frame(begins, value) or closes
        joined = b"".join(values)
        if len(joined.translate(None, _NO_VALUES)) != len(joined):
            raise RuntimeError("Invalid HTTP header value.")
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in _BODILESS:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _frame(self, begins: bytes, value: bytes) -> bool:
        """Whether the connection is to be closed after the answer."""
        if begins == _ENCODING:
            if value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
        elif b"close" in [token.lower().strip() for token in value.split(b",")]:
            self.keep_alive = False
            return True
        return False

    def _send_body(self, body: bytes, *, more: bool, head: bytes = b"") -> None:
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            if head:
                self.transport.write(head)
        elif self.chunked_encoding:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.transport.write(head + chunk if more else head + chunk + b"0\r\n\r\n")
        else:
            if len(body) > self.expected_content_length:
                raise RuntimeError("Response content longer than Content-Length")
            self.expected_content_length -= len(body)
            self.transport.write(head + body)
        if more:
            return
        if self.expected_content_length != 0:
            raise RuntimeError("Response content shorter than Content-Length")
        self.response_complete = True
        if self._event is not None:
            self._event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def _begins(name: bytes) -> bytes:
    if HEADER_RE.search(name):
        raise RuntimeError("Invalid HTTP header name.")
    if len(_NAMES) >= _MOST_NAMES:
        _NAMES.clear()
    begins = _NAMES[name] = name.lower() + b": "
    return begins


class PlainExchange(Exchange):
    """With a client of HTTP/1.0. uvicorn sends it chunks, which it takes for the body's own bytes; nginx asks so unless
    it is told otherwise. A body of unknown length ends with the connection, where the client knows no other way.
    """

    _plain = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._plain = b"content-length" not in {name.lower() for name, _ in message.get("headers", ())}
            if self._plain:
                self.chunked_encoding = False
        elif self._plain:
            # What it is told to expect it lets through.
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
