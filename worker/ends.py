"""The ends that a worker gives to jobs of its own accord."""

from __future__ import annotations

from buffer.job import End, Failure

DONE = End("done")
CANCELLED = End("cancelled")
UNREADABLE = End("failed", Failure("The job could not be read.", status=500, code="unreadable_job"))
NO_RESUME = End("failed", Failure("The answer broke off and cannot be continued.", code="broken_off"))
WORKER_STOPS = End(
    "failed", Failure("The worker is being stopped before the answer was complete.", status=503, code="worker_stopped")
)
DEFECT = End("failed", Failure("The worker could not handle this request.", status=500, code="internal_error"))
