"""The spans of a request: at the gateway, in the queue, each attempt of a worker, each call of an engine.

Imported only where traces are wanted, for it imports OpenTelemetry. No span has a prompt, an answer or a key; what a
span says of an error is a sentence of ours, never the engine's.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from buffer.backend import BackendSpec
from buffer.job import Event, Finish, Origin, Usage
from buffer.records import Granted, NewJob

LONGEST = 256
"""Characters of an attribute's value, where the environment does not bound it."""
MOST_EVENTS = 128
MOST_STATE = 512
"""Characters of a ``tracestate`` that are passed on; a longer one is dropped, as the standard allows."""
CLOSE_S = 3.0
"""How long what is left may take to be sent at the end."""

_W3C = TraceContextTextMapPropagator()
_OUTCOMES = {
    "backend_error": "No back end could answer this request.",
    "refused": "The request was refused for load.",
    "expired": "The request waited for longer than the queue timeout.",
}
_ATTEMPTS = {
    "client": "The back end says that the request itself is wrong.",
    "refused": "The back end did not take the job.",
    "failed": "The back end failed before it said anything.",
    "broken": "The back end broke off amid the answer.",
}
_CHATS = frozenset({"/v1/chat/completions", "/api/chat"})


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

    def request(self, headers: Mapping[bytes, bytes], path: str) -> RequestSpan:
        """A request that came to a gateway, under the trace that its client names."""
        state = headers.get(b"tracestate", b"")
        sent = {"traceparent": headers.get(b"traceparent", b"").decode("latin-1")}
        if len(state) <= MOST_STATE:
            sent["tracestate"] = state.decode("latin-1")
        attributes = {"http.request.method": "POST", "http.route": path, "url.path": path}
        span = self._tracer.start_span(
            f"POST {path}", _W3C.extract(sent, Context()), kind=SpanKind.SERVER, attributes=attributes
        )
        return RequestSpan(span)

    def waited(self, job: NewJob, since_at: float, taken_at: float | None) -> None:
        """A job's time in the queue; instants by ``time.perf_counter``. ``taken_at``: None: nobody has taken it."""
        wall_s = time.time() - time.perf_counter()
        span = self._tracer.start_span(
            "queue", _read(job.trace), attributes=_about_job(job), start_time=round((wall_s + since_at) * 1e9)
        )
        span.set_attribute("doublebuffer.taken", taken_at is not None)
        span.end(None if taken_at is None else round((wall_s + max(since_at, taken_at)) * 1e9))

    def attempt(self, trace: str, job: Granted, spec: BackendSpec, model: str) -> AttemptSpan:
        """A worker's attempt at a job. ``trace``: its record's; ``model``: the back end's own name for it."""
        span = self._tracer.start_span(
            "attempt",
            _read(trace),
            kind=SpanKind.CONSUMER,
            attributes=_about_job(job)
            | {
                "doublebuffer.backend": spec.name,
                "doublebuffer.attempt": job.fails + job.taken + 1,
                "doublebuffer.takeovers": job.taken,
                "doublebuffer.queue_wait_s": job.waited_us / 1e6,
                "doublebuffer.goes_on": bool(job.prefix),
            },
        )
        return AttemptSpan(self, span, spec, model)

    def call(self, within: Span, path: str, attributes: Mapping[str, str | int]) -> CallSpan:
        """A call of an engine. Names: OpenTelemetry's conventions for generative AI."""
        operation = "chat" if path in _CHATS else "text_completion"
        span = self._tracer.start_span(
            f"{operation} {attributes['gen_ai.request.model']}"[:LONGEST],
            set_span_in_context(within, Context()),
            kind=SpanKind.CLIENT,
            attributes={"gen_ai.operation.name": operation, "gen_ai.request.stream": True, **attributes},
        )
        return CallSpan(span)


class RequestSpan:
    def __init__(self, span: Span) -> None:
        self._span = span
        self.trace = _written(span)
        """As a job's record carries it."""

    def status(self, status: int) -> None:
        """The answer's head has gone out."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))

    def job(self, job: NewJob) -> None:
        """What the request has become."""
        self._span.set_attributes(_about_job(job) | {"gen_ai.request.model": job.name or job.model})

    def ended(self, lane: str, outcome: str) -> None:
        self._span.set_attributes({"doublebuffer.lane": lane, "doublebuffer.outcome": outcome})
        if sentence := _OUTCOMES.get(outcome):
            self._span.set_status(Status(StatusCode.ERROR, sentence))
            self._span.set_attribute("error.type", outcome)

    def close(self) -> None:
        self._span.end()


class AttemptSpan:
    def __init__(self, spans: Spans, span: Span, spec: BackendSpec, model: str) -> None:
        self._spans = spans
        self._span = span
        self._failed = False
        self._about: dict[str, str | int] = {"gen_ai.provider.name": spec.kind, "gen_ai.request.model": model}
        address = urlsplit(spec.url)
        self._about["server.address"] = address.hostname or ""
        if address.port:
            self._about["server.port"] = address.port

    @property
    def headers(self) -> dict[str, str]:
        """For requests to the engine that have no span of their own: the pieces of a prompt."""
        return _headers(self._span)

    def call(self, path: str) -> CallSpan:
        """Asks the engine."""
        return self._spans.call(self._span, path, self._about)

    def piece(self, tokens: int) -> None:
        """The engine has read so many tokens of the prompt."""
        self._span.add_event("prompt piece read", {"doublebuffer.prompt_tokens": tokens})

    def failed(self, kind: Literal["client", "refused", "failed", "broken"], status: int) -> None:
        self._failed = True
        _fail(self._span, kind, status)

    def ended(self, outcome: str) -> None:
        """``outcome``: what became of the job by it, in a word."""
        self._span.set_attribute("doublebuffer.attempt_outcome", outcome)
        if outcome == "failed" and not self._failed:
            self._span.set_status(Status(StatusCode.ERROR, "The job could not be answered."))
        self._span.end()


class CallSpan:
    def __init__(self, span: Span) -> None:
        self._span = span
        self._began_at = time.perf_counter()
        self._first = False
        self._usage: Usage | None = None
        self._reasons: dict[int, str] = {}
        self.headers = _headers(span)
        """For the engine."""

    def heard(self, events: list[Event]) -> None:
        """What came of the answer."""
        for event in events:
            kind = type(event)
            if kind is Finish:
                assert isinstance(event, Finish)
                self._reasons[event.index] = event.reason
            elif kind is Usage:
                assert isinstance(event, Usage)
                self._usage = event
            elif not self._first and kind is not Origin:
                self._first = True
                passed_s = time.perf_counter() - self._began_at
                self._span.set_attribute("gen_ai.response.time_to_first_chunk", passed_s)
                self._span.add_event("first token")

    def failed(self, kind: Literal["client", "refused", "failed", "broken"], status: int) -> None:
        _fail(self._span, kind, status)

    def close(self) -> None:
        usage = self._usage
        if usage is not None:
            self._span.set_attribute("gen_ai.usage.input_tokens", usage.prompt)
            self._span.set_attribute("gen_ai.usage.output_tokens", usage.completion)
            if usage.cached is not None:
                self._span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached)
            if usage.reasoning is not None:
                self._span.set_attribute("gen_ai.usage.reasoning.output_tokens", usage.reasoning)
        if self._reasons:
            reasons = [self._reasons[index] for index in sorted(self._reasons)]
            self._span.set_attribute("gen_ai.response.finish_reasons", reasons)
        self._span.end()


def _about_job(job: NewJob | Granted) -> dict[str, str | int | float | bool]:
    return {"doublebuffer.job": job.id, "doublebuffer.lane": job.lane}


def _fail(span: Span, kind: str, status: int) -> None:
    span.set_status(Status(StatusCode.ERROR, _ATTEMPTS[kind]))
    span.set_attributes({"error.type": kind, "doublebuffer.status": status})


def _headers(span: Span) -> dict[str, str]:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, set_span_in_context(span, Context()))
    return carrier


def _written(span: Span) -> str:
    carried = _headers(span)
    return ";".join(filter(None, (carried.get("traceparent"), carried.get("tracestate"))))


def _read(trace: str) -> Context:
    parent, _, state = trace.partition(";")
    return _W3C.extract({"traceparent": parent, "tracestate": state}, Context())
