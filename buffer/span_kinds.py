"""The spans of a request, each for whoever makes it: its gateway, a worker, and what asks an engine."""

from __future__ import annotations

import time
from typing import Literal
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from buffer.backend import BackendSpec
from buffer.job import Event, Finish, Origin, Usage
from buffer.records import Granted, NewJob

LONGEST = 256
"""Characters of an attribute's value, where the environment does not bound it."""
W3C = TraceContextTextMapPropagator()
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


class RequestSpan:
    def __init__(self, span: Span) -> None:
        self._span = span
        self.trace = _written(span)
        """As a job's record carries it."""

    def status(self, status: int, job: str) -> None:
        """The answer's head has gone out. ``job``: whose answer it is, maybe another request's; empty: none's."""
        self._span.set_attribute("http.response.status_code", status)
        if job:
            self._span.set_attribute("doublebuffer.job", job)
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))

    def job(self, job: NewJob) -> None:
        """What the request has become."""
        self._span.set_attributes(about_job(job) | {"gen_ai.request.model": job.name or job.model})

    def ended(self, lane: str, outcome: str) -> None:
        self._span.set_attributes({"doublebuffer.lane": lane, "doublebuffer.outcome": outcome})
        if sentence := _OUTCOMES.get(outcome):
            self._span.set_status(Status(StatusCode.ERROR, sentence))
            self._span.set_attribute("error.type", outcome)

    def close(self) -> None:
        self._span.end()


class AttemptSpan:
    def __init__(self, tracer: Tracer, span: Span, spec: BackendSpec, model: str) -> None:
        self._tracer = tracer
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
        """Asks the engine. Names: OpenTelemetry's conventions for generative AI."""
        operation = "chat" if path in _CHATS else "text_completion"
        span = self._tracer.start_span(
            f"{operation} {self._about['gen_ai.request.model']}"[:LONGEST],
            set_span_in_context(self._span, Context()),
            kind=SpanKind.CLIENT,
            attributes={"gen_ai.operation.name": operation, "gen_ai.request.stream": True, **self._about},
        )
        return CallSpan(span)

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
        # What asks the engine does not tell the two apart.
        _fail(self._span, "broken" if kind == "failed" and self._first else kind, status)

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


def about_job(job: NewJob | Granted) -> dict[str, str | int | float | bool]:
    return {"doublebuffer.job": job.id, "doublebuffer.lane": job.lane}


def _fail(span: Span, kind: str, status: int) -> None:
    span.set_status(Status(StatusCode.ERROR, _ATTEMPTS[kind]))
    span.set_attributes({"error.type": kind, "doublebuffer.status": status})


def _headers(span: Span) -> dict[str, str]:
    carrier: dict[str, str] = {}
    W3C.inject(carrier, set_span_in_context(span, Context()))
    return carrier


def _written(span: Span) -> str:
    carried = _headers(span)
    return ";".join(filter(None, (carried.get("traceparent"), carried.get("tracestate"))))


def read_trace(trace: str) -> Context:
    parent, _, state = trace.partition(";")
    return W3C.extract({"traceparent": parent, "tracestate": state}, Context())
