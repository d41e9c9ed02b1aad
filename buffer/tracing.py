"""Traces, where OpenTelemetry's own settings ask for them. Where they do not, nothing of it is imported, and what the
hot paths have of it is one test for None.

``buffer.spans`` makes the spans, which are ``buffer.span_kinds``. A trace crosses the store in the job's record, as a
field of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buffer.span_kinds import AttemptSpan
    from buffer.spans import Spans

log = logging.getLogger("doublebuffer.tracing")

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"

CURRENT: ContextVar[AttemptSpan | None] = ContextVar("doublebuffer.attempt", default=None)
"""The attempt at a job that the running task makes; None: it is not traced."""


def wanted(environment: Mapping[str, str]) -> str:
    """The variable that asks for traces; empty: none does."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ""
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporters:
        return "OTEL_TRACES_EXPORTER" if "otlp" in exporters.split(",") else ""
    return next((name for name in _ENDPOINTS if environment.get(name, "").strip()), "")


def open_spans(environment: Mapping[str, str], service: str) -> Spans | None:
    """None: nobody wants traces, or they cannot be sent; why not is said in the log, for a service that answers is
    worth more than its traces. ``service``: its name, where the environment gives none.
    """
    name = wanted(environment)
    if not name:
        return None
    protocol = next((environment[one].strip().lower() for one in _PROTOCOLS if environment.get(one, "").strip()), "")
    if protocol not in ("", _SPOKEN):
        log.warning("no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL has to be %s, not %s", _SPOKEN, protocol)
        return None
    address = environment.get(name, "").strip()
    if name in _ENDPOINTS and not address.startswith(("http://", "https://")):
        log.warning("no traces are sent: %s has to begin with http:// or https://", name)
        return None
    try:
        from buffer.spans import Spans
    except ImportError:
        log.warning(
            "no traces are sent: %s is set, and OpenTelemetry is not installed: pip install 'doublebuffer[otel]'", name
        )
        return None
    try:
        return Spans.open(environment, service)
    except ValueError as error:
        log.warning("no traces are sent: a variable OTEL_… has a value that is none: %s", error)
        return None


def headers_of_attempt() -> dict[str, str]:
    """What a request to an engine carries of the trace that it belongs to, where that has no span of its own."""
    attempt = CURRENT.get()
    return {} if attempt is None else attempt.headers
