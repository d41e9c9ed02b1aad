"""A client's connection, one request after another: uvicorn's protocol, without what most requests have no need of.

uvicorn looks for a proxy's headers in each request, parses each request's address anew, and sets a timer after each
answer.
"""

from __future__ import annotations

import math
import urllib.parse
from typing import Any

import httptools
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from buffer.timing import Deadline
from doublebuffer.exchange import Exchange, PlainExchange

_EXPECT = b"expect"
_FORWARDED = frozenset({b"x-forwarded-for", b"x-forwarded-proto"})
"""What uvicorn's middleware reads."""


class Exchanging(HttpToolsProtocol):
    """uvicorn's protocol, whose requests are ``Exchange``. It knows no upgrades and no limit to concurrency."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._behind_proxy = self.app
        if isinstance(self.app, ProxyHeadersMiddleware):
            self.app = self.app.app
        self._in_body = False
        """The client is amid a body,"""
        self._was_body = False
        """which has ended just now."""
        self._idle = Deadline(self.timeout_keep_alive_handler)
        """Until when the next request may begin."""
        self._places: dict[bytes, tuple[str, bytes, bytes]] = {}
        """The last address → its path, as text and as it came, and its query."""

    def on_headers_complete(self) -> None:
        parser = self.parser
        http_version = parser.get_http_version()
        is_old = http_version == "1.0"
        forwarded = expects_100 = False
        for name, value in self.headers:
            if name in _FORWARDED:
                forwarded = True
            elif name == _EXPECT:
                expects_100 = expects_100 or value.lower() == b"100-continue"
        path, raw_path, query = self._places.get(self.url) or self._place()
        scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": http_version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": self.root_path,
            "headers": self.headers,
            "state": self.app_state.copy(),
            "method": parser.get_method().decode("ascii"),
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
        }
        before = self.cycle
        kind = PlainExchange if is_old else Exchange
        keep_alive = not is_old and parser.should_keep_alive()
        exchange = self.cycle = kind(self, scope, expects_100=expects_100, keep_alive=keep_alive)
        app = self._behind_proxy if forwarded else self.app
        if before is None or before.response_complete:
            self._start_asgi_task(exchange, app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, app))

    def _place(self) -> tuple[str, bytes, bytes]:
        parsed = httptools.parse_url(self.url)
        path = parsed.path.decode("ascii")
        if "%" in path:
            path = urllib.parse.unquote(path)
        found = self.root_path + path, self.root_path.encode("ascii") + parsed.path, parsed.query or b""
        self._places = {self.url: found}
        return found

    def on_body(self, body: bytes) -> None:
        exchange = self.cycle
        if isinstance(exchange, Exchange) and not exchange.response_complete:
            exchange.came(body)
            if len(exchange.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            # Said at the end of the head. The end of the body comes later.
            return
        self._in_body, self._was_body = False, True
        exchange = self.cycle
        if isinstance(exchange, Exchange) and not exchange.response_complete:
            exchange.came(more=False)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle.set(self.loop.time() + self.timeout_keep_alive)

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
