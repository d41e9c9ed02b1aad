"""One HTTP request as the routes see it, and plain answers to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from gateway.refusal import ClientLeft
from gateway.room import Held, Room

if TYPE_CHECKING:
    from buffer.span_kinds import RequestSpan

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

JSON = b"application/json; charset=utf-8"
NDJSON = b"application/x-ndjson"
SSE = b"text/event-stream"
TEXT = b"text/plain; charset=utf-8"

_KEY = "doublebuffer.call"
LINE = "doublebuffer.line"
"""Where in a scope our server puts the line. It knows the scope: left there, only the collector of garbage would find
them."""
_CLOSED = "the handler is closed"
"""What uvloop says of a connection that is not there any more."""
_LISTS = frozenset({b"cache-control", b"pragma"})


class Line(Protocol):
    """What our own server tells of a request beyond ASGI, so that nobody needs a task to wait for it."""

    def body_here(self) -> bytes | None:
        """The whole body, once, if all of it has come; else None: ``receive`` gives it."""

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        """Sends a whole answer. False: it cannot be sent at once; ``send`` will."""

    def when_left(self, action: Callable[[], None] | None) -> bool:
        """``action`` is called once the client has closed its connection; None: nothing is. False: it has already."""

    @property
    def flows(self) -> bool:
        """The client is there and takes what it is sent: nobody has to wait for it."""

    def write(self, data: bytes) -> None:
        """While it ``flows``: more of a body of unknown length whose headers were sent."""


class Call(Struct):
    """What the front found out about a request before any route saw it."""

    method: str
    path: str
    """Percent-decoded."""
    headers: dict[bytes, bytes]
    """By lower-case name; of a header that came twice, the last, or all of them where it is a list."""
    request_id: str
    key: str
    """Name of the API key it was sent with; empty where no keys are set."""
    trusted: bool
    """Its user headers count."""
    key_lanes: frozenset[str]
    """Lanes above the chat's own that its key may choose."""
    address: str
    """The peer's IP address."""
    share: int = 0
    """Thousandths of a back end's places that jobs of its key may have while others wait; 0: no limit."""
    held: Held = field(default_factory=lambda: Held(Room()))
    """What is kept of it in memory."""
    span: RequestSpan | None = None
    """None: it is not traced."""
    line: Line | None = None
    """None: it came over another server than ours."""

    def header(self, name: bytes) -> str:
        """A header's text, empty if it did not come."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def is_openai(self) -> bool:
        """Whether errors on this path take OpenAI's form."""
        return self.path.startswith("/v1/") or self.path == "/v1"

    @property
    def is_anthropic(self) -> bool:
        """Whether they take Anthropic's, for all that."""
        return self.path == "/v1/messages" or self.path.startswith("/v1/messages/")


def read_headers(came: Headers) -> dict[bytes, bytes]:
    """As ``Call.headers``. A proxy's word on caches does not stand in place of its client's."""
    found = dict(came)
    if len(found) < len(came):
        for name in _LISTS & found.keys():
            found[name] = b", ".join(value for other, value in came if other == name)
    return found


def call_of(scope: Scope) -> Call:
    """The call that ``Front`` put there."""
    call = scope[_KEY]
    assert isinstance(call, Call)
    return call


def put_call(scope: Scope, call: Call) -> None:
    scope[_KEY] = call


class Marked:
    """A client's ``Send``: every answer gets ``common`` headers, too."""

    __slots__ = ("_common", "_line", "_send", "begun", "left")

    def __init__(self, send: Send, line: Line | None, common: Headers) -> None:
        self._send = send
        self._line = line
        self._common = common
        self.begun = False
        self.left = False
        """The client has, and sent its next request already: uvicorn tells nobody."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message["headers"] = [*message.get("headers", ()), *self._common]
        try:
            await self._send(message)
        except RuntimeError as error:
            self._leave(error)

    def whole(self, status: int, headers: Headers, body: bytes) -> bool:
        """As ``Line.answer``."""
        if self._line is None or self.begun:
            return False
        try:
            self.begun = self._line.answer(status, [*headers, *self._common], body)
        except RuntimeError as error:
            self.begun = True
            self._leave(error)
        return self.begun

    def _leave(self, error: RuntimeError) -> None:
        if _CLOSED not in str(error):
            raise error
        self.left = True
        raise ClientLeft from None


async def answer(send: Send, status: int, content_type: bytes, body: bytes, headers: Headers = ()) -> None:
    """Sends a whole answer."""
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
    if isinstance(send, Marked) and send.whole(status, headers, body):
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
