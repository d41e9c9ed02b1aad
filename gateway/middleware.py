"""The front of the application: what holds for every answer, whichever route gives it. Plain ASGI, so that a client's
leaving is seen by whoever waits for it."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping

from buffer.telemetry import Api, Outcome, Telemetry
from gateway.auth import Holder, asks_itself
from gateway.call import (
    LINE,
    AsgiApp,
    Call,
    Headers,
    Line,
    Marked,
    Receive,
    Scope,
    Send,
    answer,
    put_call,
    read_headers,
)
from gateway.dashboard.safe import SAFE
from gateway.door import UNAUTHORIZED, Door
from gateway.forms import failure_answer
from gateway.ids import new_id
from gateway.refusal import UNEXPECTED, BrokenOff, ClientLeft
from gateway.room import Held

_SAFE_ID = re.compile(rb"[A-Za-z0-9._:@/+=-]{1,128}")
_SLASHES = re.compile("/{2,}")
_MARK = (b"x-doublebuffer", b"1")
_NOBODY = Holder("", trusted=False, lanes=frozenset())
_CHALLENGE = (b"www-authenticate", b"Bearer")


class Front:
    """Ids, CORS, keys and the hot routes; everything else goes on to ``app``.

    ``hot``: the chat routes by path. They are known to ``app`` too, for its documentation; going past its routing and
    its layers spares each chat a third of what the gateway costs it.
    """

    def __init__(
        self,
        app: AsgiApp,
        hot: Mapping[str, tuple[Api, AsgiApp]],
        *,
        door: Door,
        telemetry: Telemetry,
        end_answers: Callable[[], Awaitable[None]],
    ) -> None:
        self._app = app
        self._hot = hot
        self._door = door
        self._telemetry = telemetry
        self.end_answers = end_answers
        """Tells every client that still waits that the gateway stops, and cancels its job: the last thing before it
        does."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = read_headers(scope["headers"])
        path: str = scope["path"]
        method: str = scope["method"]
        hot = self._hot.get(path) if method == "POST" else None
        if hot is None and (path.endswith("/") or "//" in path):
            path = _tidy(path)
            scope = {**scope, "path": path, "raw_path": path.encode()}
            hot = self._hot.get(path) if method == "POST" else None
        request_id = headers.get(b"x-request-id")
        if request_id is None or not _SAFE_ID.fullmatch(request_id):
            request_id = new_id().encode()
        door = self._door
        origin = headers.get(b"origin")
        common = [_MARK, (b"x-request-id", request_id)]
        if origin is not None:
            common += door.cors.headers(origin)
        if path.startswith("/v1/messages"):
            common.append((b"request-id", request_id))  # where Anthropic's clients look for it
        elif hot is None and asks_itself(path):
            common += SAFE
        line: Line | None = scope.pop(LINE, None)
        marked = Marked(send, line, common)
        if method == "OPTIONS":
            await _preflight(marked, door.cors.preflight(origin, headers.get(b"access-control-request-headers")))
            return
        client = scope.get("client")
        holder = door.holder(path, headers)
        who = holder or _NOBODY
        call = Call(
            method=method,
            path=path,
            headers=headers,
            request_id=request_id.decode(),
            key=who.name,
            trusted=who.trusted,
            key_lanes=who.lanes,
            address=client[0] if client else "",
            share=who.share,
            held=Held(door.room),
            line=line,
        )
        refused = door.refuses(holder, method, path, headers)
        if refused is None and who.requests_per_minute:
            refused = await door.over(who, method)
        if refused is not None:
            if hot:
                outcome: Outcome = "refused" if refused.status in (429, 503) else "client_error"
                self._telemetry.request_ended(hot[0], "none", outcome)
            status, content_type, body, more = failure_answer(refused, call)
            await answer(marked, status, content_type, body, (_CHALLENGE,) if refused is UNAUTHORIZED else more)
            return
        put_call(scope, call)
        try:
            await (hot[1] if hot else self._app)(scope, receive, marked)
        except (BrokenOff, ClientLeft):
            if not marked.left:
                raise
        except Exception:
            if hot:
                self._telemetry.request_ended(hot[0], "none", "backend_error")
            if not marked.begun:
                status, content_type, body, _ = failure_answer(UNEXPECTED, call)
                await answer(marked, status, content_type, body)
            raise  # for the server's log
        finally:
            call.held.let_go()
            call.line = None
        if marked.left:
            raise BrokenOff


def _tidy(path: str) -> str:
    """A path as it was meant: clients join addresses that end in a slash with paths that begin with one, and Ollama
    takes paths that end in one."""
    return _SLASHES.sub("/", path).rstrip("/") or "/"


async def _preflight(send: Send, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


class _ExpectedBreaks(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], BrokenOff))


_EXPECTED_BREAKS = _ExpectedBreaks()


def install_log_filter() -> None:
    """Keeps uvicorn from reporting answers that were broken off on purpose. Doing it twice does nothing more."""
    logging.getLogger("uvicorn.error").addFilter(_EXPECTED_BREAKS)
