"""How a job may fail in the queue rather than at a back end."""

from __future__ import annotations

from buffer.job import End, Failure

EXPIRED = End(
    "expired",
    Failure("The request waited too long for a free place.", status=503, code="queue_timeout", retry_after_s=10),
)
TAKEN_OVER_TOO_OFTEN = End(
    "failed", Failure("Three workers in a row died while answering this request.", status=502, code="worker_lost")
)
USED_UP = End("failed", Failure("No back end could answer this request.", status=502, code="upstream_error"))
INTERRUPTED = Failure(
    "The worker that was answering this request died after the answer had begun.", status=502, code="interrupted"
)
LOST = Failure("The queue lost this request; please send it again.", status=503, code="lost", retry_after_s=1)
TOO_SLOW = Failure("The client did not read its answer.", status=500, code="slow_reader")
TOO_LARGE = Failure(
    "The answer is too large to be sent in one piece; ask for it as a stream.", status=500, code="answer_too_large"
)
GOES_ON = Failure(
    "The gateway is being stopped; the request goes on, and its answer can be read by its id.",
    status=503,
    code="stopping",
    retry_after_s=1,
)
STOPPING = Failure(
    "The gateway is being stopped; please send the request again.", status=503, code="stopping", retry_after_s=1
)
