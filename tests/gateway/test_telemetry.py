from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from buffer.gauge_metrics import BackendGauges, Gauges
from buffer.telemetry import Telemetry

NAMES = {
    "requests_total", "queue_depth", "oldest_wait_seconds", "queue_wait_seconds", "batch_size", "batch_window_seconds",
    "time_to_first_token_seconds", "inter_token_seconds", "estimate_ratio", "request_seconds", "tokens_total",
    "in_flight", "in_flight_limit", "backend_up", "breaker_open", "attempts_total", "taken_over_total", "resumed_total",
    "dead_letter_total", "cache_total", "workers",
}  # fmt: skip
GAUGES = Gauges({"fast": 3}, {"fast": 1.5}, {"a": BackendGauges(2, 8, up=True, breaker_open=False)}, 4)


def test_it_has_the_promised_names_and_no_others() -> None:
    telemetry = Telemetry()
    telemetry.request_ended("ollama", "fast", "ok")
    telemetry.attempt_ended("a", "ok")
    text = telemetry.exposition(GAUGES).decode()
    found = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"^doublebuffer_(\w+)", text, re.M)}
    assert found == NAMES
    assert 'doublebuffer_requests_total{api="ollama",lane="fast",outcome="ok"} 1.0' in text
    assert 'doublebuffer_in_flight{backend="a"} 2.0' in text
    assert 'doublebuffer_backend_up{backend="a"} 1.0' in text
    assert "doublebuffer_workers 4.0" in text


def test_two_of_them_count_apart() -> None:
    one, other = Telemetry(), Telemetry()
    one.taken_over.inc()
    assert b"doublebuffer_taken_over_total 1.0" in one.exposition(None)
    assert b"doublebuffer_taken_over_total 0.0" in other.exposition(None)


def test_without_the_store_its_gauges_are_left_out() -> None:
    assert b"queue_depth" not in Telemetry().exposition(None)


def test_any_process_tells_the_totals_of_all(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from buffer.telemetry import Telemetry
        from tests.gateway.test_telemetry import GAUGES
        telemetry = Telemetry()
        telemetry.request_ended("openai", "slow", "ok")
        telemetry.queue_wait["slow"].observe(2)
        sys.stdout.buffer.write(telemetry.exposition(GAUGES))
    """
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    text = run.stdout.decode()
    assert 'doublebuffer_requests_total{api="openai",lane="slow",outcome="ok"} 2.0' in text
    assert 'doublebuffer_queue_wait_seconds_sum{lane="slow"} 4.0' in text
    assert "pid=" not in text
    assert text.count("doublebuffer_workers 4.0") == 1
