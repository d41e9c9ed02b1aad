"""One request and its answer on a connection: what uvicorn does, without what most requests have no need of.

uvicorn looks for a proxy's headers in each request, parses each request's address anew, and looks at each name and
value of an answer's headers by itself.
"""

from __future__ import annotations

import asyncio
import math
import urllib.parse
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from buffer.timing import Deadline
from gateway.call import put_line

_EXPECT = b"expect"
_FORWARDED = frozenset({b"x-forwarded-for", b"x-forwarded-proto"})
"""What uvicorn's middleware reads."""
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_BODILESS = frozenset({204, 304})


class Exchange(RequestResponseCycle):
    """As uvicorn's, and a ``gateway.call.Line``."""

    _on_left: Callable[[], None] | None = None

    def body_here(self) -> bytes | None:
        if self.more_body or self.disconnected or self.response_complete or self.waiting_for_100_continue:
            return None
        body, self.body = bytes(self.body), bytearray()
        self.message_event.clear()
        self.flow.resume_reading()
        return body

    def when_left(self, action: Callable[[], None] | None) -> bool:
        self._on_left = action
        # As ``receive``: whoever waits for a client's leaving wants to read on.
        self.flow.resume_reading()
        return not self.disconnected

    def left(self) -> None:
        """The connection is gone."""
        if self.disconnected and self._on_left is not None:
            self._on_left()

    async def send(self, message: Any) -> None:
        if self.response_started or self.access_log or message["type"] != "http.response.start":
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if not self.disconnected:
            self.response_started = True
            self.waiting_for_100_continue = False
            self.transport.write(self._head(message["status"], message.get("headers", ())))

    def _head(self, status: int, own: Any) -> bytes:
        """All names at once, and all values: they are tried for single characters. Raises ``RuntimeError``."""
        headers = [*self.default_headers, *own]
        if HEADER_RE.search(b"".join([name for name, _ in headers])):
            raise RuntimeError("Invalid HTTP header name.")
        if HEADER_VALUE_RE.search(b"".join([value for _, value in headers])):
            raise RuntimeError("Invalid HTTP header value.")
        lines = [STATUS_LINE[status]]
        closes = False
        for own_name, value in headers:
            name = own_name.lower()
            lines += (name, b": ", value, b"\r\n")
            if name in _FRAMING:
                closes = self._frame(name, value) or closes
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in _BODILESS:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _frame(self, name: bytes, value: bytes) -> bool:
        """Whether the connection is to be closed after the answer."""
        if name == b"content-length":
            if self.chunked_encoding is None:
                self.expected_content_length = int(value.decode())
                self.chunked_encoding = False
        elif name == b"transfer-encoding":
            if value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
        elif b"close" in [token.lower().strip() for token in value.split(b",")]:
            self.keep_alive = False
            return True
        return False


class Exchanging(HttpToolsProtocol):
    """uvicorn's protocol, whose requests are ``Exchange``. It knows no upgrades and no limit to concurrency."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._behind_proxy = self.app
        if isinstance(self.app, ProxyHeadersMiddleware):
            self.app = self.app.app
        self._forwarded = False
        """A proxy tells of the request's client."""
        self._idle = Deadline(self.timeout_keep_alive_handler)
        """Until when the next request may begin."""
        self._places: dict[bytes, tuple[str, bytes, bytes]] = {}
        """The last address → its path, as text and as it came, and its query."""

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = self._forwarded = False
        self.headers = []
        self.scope = {  # type: ignore[typeddict-item]
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item]
            "root_path": self.root_path,
            "headers": self.headers,
            "state": self.app_state.copy(),
        }

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _FORWARDED:
            self._forwarded = True
        elif name == _EXPECT and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        scope, parser = self.scope, self.parser
        http_version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = http_version
        scope["path"], scope["raw_path"], scope["query_string"] = self._place()
        before = self.cycle
        self.cycle = exchange = Exchange(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=http_version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        put_line(cast(Any, scope), exchange)
        app = self._behind_proxy if self._forwarded else self.app
        if before is None or before.response_complete:
            self._start_asgi_task(exchange, app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, app))

    def _place(self) -> tuple[str, bytes, bytes]:
        found = self._places.get(self.url)
        if found is None:
            parsed = httptools.parse_url(self.url)
            path = parsed.path.decode("ascii")
            if "%" in path:
                path = urllib.parse.unquote(path)
            found = self.root_path + path, self.root_path.encode("ascii") + parsed.path, parsed.query or b""
            self._places = {self.url: found}
        return found

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._rest()

    def _rest(self) -> None:
        """Nothing is asked: the connection is idle from now on."""
        self._idle.set(self.loop.time() + self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        self._idle.set(math.inf)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle.clear()
        if isinstance(self.cycle, Exchange):
            self.cycle.left()
