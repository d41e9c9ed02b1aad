"""How a request ends without an answer."""

from __future__ import annotations

from buffer.job import Failure
from buffer.telemetry import Outcome

UNEXPECTED = Failure("Doublebuffer failed at this request; its log says why.", 500, "internal_error")


class Refusal(Exception):  # noqa: N818
    """The request ends here, with a status and one sentence, and nothing was left in the buffer."""

    def __init__(self, failure: Failure, outcome: Outcome = "client_error") -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.outcome: Outcome = outcome


class ClientLeft(Exception):  # noqa: N818
    """The client closed its connection."""


class BrokenOff(Exception):  # noqa: N818
    """Raised out of the application after an answer's last words: the server then closes the connection without the
    body's end, which is how a client of a stream notices that it is not whole. Expected, so not worth a log line."""
