"""The spans of a request: at the gateway, in the queue, each attempt of a worker, each call of an engine.

Imported only where traces are wanted, for it imports OpenTelemetry. No span has a prompt, an answer or a key; what a
span says of an error is a sentence of ours, never the engine's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

from buffer.backend import BackendSpec
from buffer.records import Granted, NewJob
from buffer.span_kinds import LONGEST, W3C, AttemptSpan, RequestSpan, about_job, read_trace

MOST_EVENTS = 128
MOST_STATE = 512
"""Characters of a ``tracestate`` that are passed on; a longer one is dropped, as the standard allows."""
CLOSE_S = 3.0
"""How long what is left may take to be sent at the end."""
SAID_AGAIN_S = 60.0
"""How often the log says that a collector does not take what it is sent."""
_REASON = 300


class Spans:
    """Makes all spans of a process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("doublebuffer", version("doublebuffer"))

    @classmethod
    def open(cls, environment: Mapping[str, str], service: str) -> Spans:
        """Spans that go to the collector that the environment names. Raises ``ValueError``."""
        named = environment.get("OTEL_SERVICE_NAME") or SERVICE_NAME in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
        bounded = environment.get("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")
        provider = TracerProvider(
            resource=Resource.create({} if named else {SERVICE_NAME: service}),
            span_limits=SpanLimits(max_events=MOST_EVENTS, max_attribute_length=None if bounded else LONGEST),
            shutdown_on_exit=False,
        )
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(_SELDOM)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    async def aclose(self) -> None:
        """Sends what is left, for as long as ``CLOSE_S``: a collector that is away holds up nobody."""
        closed, loop = asyncio.Event(), asyncio.get_running_loop()

        def close() -> None:
            self._provider.shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(closed.set)

        threading.Thread(target=close, name="last spans", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_S):
                await closed.wait()
        except TimeoutError:
            return

    def flush(self) -> None:
        """Sends what there is now, and waits for it."""
        self._provider.force_flush()

    def request(self, headers: Mapping[bytes, bytes], path: str) -> RequestSpan:
        """A request that came to a gateway, under the trace that its client names."""
        state = headers.get(b"tracestate", b"")
        sent = {"traceparent": headers.get(b"traceparent", b"").decode("latin-1")}
        if len(state) <= MOST_STATE:
            sent["tracestate"] = state.decode("latin-1")
        attributes = {"http.request.method": "POST", "http.route": path, "url.path": path}
        span = self._tracer.start_span(
            f"POST {path}", W3C.extract(sent, Context()), kind=SpanKind.SERVER, attributes=attributes
        )
        return RequestSpan(span)

    def waited(self, job: NewJob, since_at: float, taken_at: float | None) -> None:
        """A job's time in the queue; instants by ``time.perf_counter``. ``taken_at``: None: nobody has taken it."""
        wall_s = time.time() - time.perf_counter()
        span = self._tracer.start_span(
            "queue", read_trace(job.trace), attributes=about_job(job), start_time=round((wall_s + since_at) * 1e9)
        )
        span.set_attribute("doublebuffer.taken", taken_at is not None)
        span.end(None if taken_at is None else round((wall_s + max(since_at, taken_at)) * 1e9))

    def attempt(self, trace: str, job: Granted, spec: BackendSpec, model: str) -> AttemptSpan:
        """A worker's attempt at a job. ``trace``: its record's; ``model``: the back end's own name for it."""
        span = self._tracer.start_span(
            "attempt",
            read_trace(trace),
            kind=SpanKind.CONSUMER,
            attributes=about_job(job)
            | {
                "doublebuffer.backend": spec.name,
                "doublebuffer.attempt": job.fails + job.taken + 1,
                "doublebuffer.takeovers": job.taken,
                "doublebuffer.queue_wait_s": job.waited_us / 1e6,
                "doublebuffer.goes_on": bool(job.prefix),
            },
        )
        return AttemptSpan(self._tracer, span, spec, model)


class _Seldom(logging.Filter):
    """What the exporter complains of at each try, in a sentence now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._next_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        now_at = time.monotonic()
        if now_at < self._next_at:
            return False
        self._next_at = now_at + SAID_AGAIN_S
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        reason = record.getMessage()[:_REASON]
        record.msg, record.args = "traces come late or are lost, for the collector does not take them: %s", (reason,)
        return True


_SELDOM = _Seldom()
