"""How both dialects say no."""

from __future__ import annotations

import msgspec

from buffer.job import End, Failure


class BadRequest(Exception):  # noqa: N818
    """The request's own fault, said in the words of its dialect. ``str()`` is one sentence and quotes no chat."""

    def __init__(self, message: str, status: int = 400, param: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        """The body's field at fault, where one is."""
        self.code = code

    @property
    def failure(self) -> Failure:
        return Failure(self.message, self.status, self.code, self.param)


_DEFAULTS = {
    "failed": Failure("The answer could not be completed."),
    "cancelled": Failure("request canceled", 499, "cancelled"),
    "expired": Failure("The request waited too long for its turn.", 503, "queue_timeout"),
}


_AWAY_S = 5
"""When to try again what is away or busy, where nobody knows how long that will last."""


def failure_of(end: End) -> Failure | None:
    """Why a job ended without an answer; None: it ended with one."""
    if end.kind == "done":
        return None
    return end.failure or _DEFAULTS[end.kind]


def headers(failure: Failure) -> list[tuple[bytes, bytes]]:
    """The headers that go with a failure sent before the first byte. Seconds stay within 1 to 120, as clients do."""
    found: list[tuple[bytes, bytes]] = []
    if failure.status == 415:
        found.append((b"accept-encoding", b"gzip, deflate"))
    waited_long = failure.code == "queue_timeout"
    retry_s = failure.retry_after_s
    if retry_s is None and failure.status == 503 and not waited_long:
        retry_s = _AWAY_S
    if retry_s is not None:
        found.append((b"retry-after", str(min(max(retry_s, 1), 120)).encode()))
    if waited_long:
        # The wait was long already: a client that tries again by itself would only wait once more, behind everybody.
        found.append((b"x-should-retry", b"false"))
    return found


def sentence(message: str) -> str:
    """A failure's text that is safe in ``error``: never empty, never JSON, since Ollama's client parses what parses."""
    message = message.strip() or "The answer could not be completed."
    try:
        msgspec.json.decode(message.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return message
    return f"The back end answered: {message}"
