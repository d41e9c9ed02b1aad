"""An OTLP collector of a few lines: takes what is posted to it over HTTP as protobuf, and keeps every span."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1 import trace_pb2

SERVER, CLIENT, CONSUMER = 2, 3, 5
ERROR = 2
ROOT = "b7ad6b7169203331"
TRACE = "0af7651916cd43dd8448eb211c80319c"
"""Of W3C's own example."""


@dataclass(frozen=True)
class Told:
    """One span as it came. Ids in hex, instants in nanoseconds."""

    service: str
    name: str
    kind: int
    trace: str
    id: str
    parent: str
    began_ns: int
    ended_ns: int
    status: int
    sentence: str
    about: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]


@dataclass
class Collector:
    port: int = 0
    spans: list[Told] = field(default_factory=list)
    raw: bytes = b""
    paths: set[str] = field(default_factory=set)
    connections: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """For processes that are to send their spans here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    async def until(self, trace: str, enough: Callable[[list[Told]], bool], *, within_s: float = 40.0) -> list[Told]:
        """Waits for spans of a trace that are enough; all that are there by then, oldest first. ``trace``: empty: of
        any."""

        def found() -> list[Told]:
            return [span for span in self.spans if trace in ("", span.trace)]

        async with asyncio.timeout(within_s), self._news:
            await self._news.wait_for(lambda: enough(found()))
        return sorted(found(), key=lambda span: span.began_ns)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *fields = head.decode("latin-1").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in fields)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
                await self._take(line.split()[1], body)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _take(self, path: str, body: bytes) -> None:
        async with self._news:
            self.paths.add(path)
            self.raw += body
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = _values(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    self.spans += [_told(service, span) for span in scope.spans]
            self._news.notify_all()


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    """One that listens."""
    found = Collector()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()


def _told(service: str, span: trace_pb2.Span) -> Told:
    return Told(
        service=service,
        name=span.name,
        kind=span.kind,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        began_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        status=span.status.code,
        sentence=span.status.message,
        about=_values(span.attributes),
        events=[(event.name, _values(event.attributes)) for event in span.events],
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, str(kind))
