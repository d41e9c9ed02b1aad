"""The span of a request, around its route. Only there where traces are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.call import AsgiApp, Message, Receive, Scope, Send, call_of

if TYPE_CHECKING:
    from buffer.spans import Spans


class Traced:
    """A route whose requests are traced. Whoever the front turned away never comes here, and costs no span."""

    def __init__(self, route: AsgiApp, spans: Spans, path: str) -> None:
        self._route = route
        self._spans = spans
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        span = call.span = self._spans.request(call.headers, self._path)

        async def send_seen(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = dict(message.get("headers", ()))
                span.status(message["status"], told.get(b"x-doublebuffer-id", b"").decode())
            await send(message)

        try:
            await self._route(scope, receive, send_seen)
        finally:
            span.close()
