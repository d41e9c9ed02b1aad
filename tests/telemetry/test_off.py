"""Where nobody asks for traces nothing is sent, nothing imported, and nothing of a client's trace passed on."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping

import httpx
import pytest

from buffer.tracing import CURRENT, headers_of_attempt, open_spans, wanted
from tests.acceptance.site import backends_of, run_engines, run_site
from tests.telemetry.collector import ROOT, TRACE, collector
from tests.telemetry.hiding import hidden

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


async def test_nothing_is_sent_and_nothing_imported() -> None:
    """Python tells on standard error what it imports."""
    async with collector() as sink, run_engines(kinds=("vllm",)) as engines:
        off = sink.settings | {"OTEL_SDK_DISABLED": "true", "PYTHONPROFILEIMPORTTIME": "1"}
        async with run_site(backends_of(engines), workers=1, settings=off) as site:
            body = {"model": "m-vllm", "messages": [{"role": "user", "content": "hi"}]}
            async with httpx.AsyncClient(base_url=site.url, trust_env=False) as client:
                headers = {"traceparent": f"00-{TRACE}-{ROOT}-01"}
                assert (await client.post("/v1/chat/completions", json=body, headers=headers)).status_code == 200
            assert "traceparent" not in engines["vllm"].requests[-1].headers
        assert sink.connections == 0
    for process in (site.gateway, *site.workers):
        imported = {line.rpartition("|")[2].strip() for line in process.log.splitlines() if "import time:" in line}
        assert "buffer.tracing" in imported
        # redis-py looks for OpenTelemetry's metrics by itself, and we have no say in that.
        ours = ("buffer.span", "opentelemetry.sdk.trace", "opentelemetry.exporter", "opentelemetry.proto", "requests")
        assert [name for name in imported if name.startswith(ours)] == []


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, ""),
        ({"OTEL_SERVICE_NAME": "x"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, ""),
        (ENDPOINT, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:1/v1/traces"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"}, ""),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "false"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, ""),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "console"}, ""),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "OTEL_TRACES_EXPORTER"),
    ],
)
def test_what_asks_for_traces(environment: Mapping[str, str], name: str) -> None:
    assert wanted(environment) == name
    if not name:
        assert open_spans(environment, "it") is None


def test_without_the_extra_one_sentence_says_what_to_install(caplog: pytest.LogCaptureFixture) -> None:
    with hidden("buffer.spans", "buffer.span_kinds", "opentelemetry.sdk.trace"):
        assert open_spans(ENDPOINT, "it") is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message == (
        "no traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT is set, and OpenTelemetry is not installed:"
        " pip install 'doublebuffer[otel]'"
    )


def test_another_protocol_is_named(caplog: pytest.LogCaptureFixture) -> None:
    assert open_spans(ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "it") is None
    assert [record.message for record in caplog.records] == [
        "no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL has to be http/protobuf, not grpc"
    ]


def test_an_address_without_a_scheme_is_named(caplog: pytest.LogCaptureFixture) -> None:
    assert open_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "it") is None
    assert [record.message for record in caplog.records] == [
        "no traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT has to begin with http:// or https://"
    ]


def test_a_value_that_is_none_is_named(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    assert open_spans(ENDPOINT, "it") is None
    assert "OTEL_" in caplog.records[-1].message


def test_that_a_collector_is_away_is_said_once_and_not_at_each_try(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        patch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1.5")
        spans = open_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://as.set"}, "it")
        assert spans is not None
        spans.request({}, "/v1/chat/completions").close()
        spans.flush()
    (record,) = caplog.records
    assert record.message.startswith("traces come late or are lost, for the collector does not take them: ")
    assert "refused" in record.message


async def test_a_collector_that_is_away_holds_up_no_end() -> None:
    """It takes what is sent and never answers."""
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        spans = open_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://as.set"}, "it")
    assert spans is not None
    spans.request({}, "/v1/chat/completions").close()
    # Its library by itself would try for ten.
    async with asyncio.timeout(8.0):
        await spans.aclose()
    silent.close()


def test_a_task_that_is_not_traced_says_nothing_to_engines() -> None:
    assert CURRENT.get() is None
    assert headers_of_attempt() == {}
    assert "buffer.tracing" in sys.modules
