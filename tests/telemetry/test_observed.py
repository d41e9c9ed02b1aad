"""Histograms that are told of much at a time say what they would say if they had been told of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from buffer.observed import Noted, Observed
from buffer.recent import Recent, step_of
from buffer.telemetry import Telemetry

BUCKETS = (0.001, 0.5, 1, 8)


def histogram() -> tuple[CollectorRegistry, Histogram]:
    registry = CollectorRegistry()
    return registry, Histogram("h", "A histogram.", buckets=BUCKETS, registry=registry)


@given(st.lists(st.sampled_from([0.0, -1.0, 0.001, 0.0011, 0.5, 0.75, 1.0, 8.0, 8.1, 1e9])))
def test_many_at_a_time_are_what_they_are_one_by_one(amounts: list[float]) -> None:
    registry, child = histogram()
    observed = Observed(child)
    for amount in amounts:
        observed.observe(amount)
    observed.tell()
    expected, one_by_one = histogram()
    for amount in amounts:
        one_by_one.observe(amount)
    told, due = (
        [line for line in generate_latest(one).splitlines() if b"created" not in line] for one in (registry, expected)
    )
    assert told == due


def test_what_was_told_is_told_once() -> None:
    registry, child = histogram()
    observed = Observed(child)
    observed.observe(1.0)
    observed.tell()
    observed.tell()
    assert registry.get_sample_value("h_count") == 1


def test_at_once_waits_for_nobody() -> None:
    registry, child = histogram()
    observed = Observed(child)
    observed.at_once()
    observed.observe(1.0)
    assert registry.get_sample_value("h_count") == 1


def test_those_who_look_on_have_them_by_steps() -> None:
    recent = Recent()
    waits, sizes = Noted(histogram()[1], recent, "wait:fast"), Noted(histogram()[1], recent, "batch", sizes=True)
    for amount in (0.004, 0.004, 3.0):
        waits.observe(amount)
    sizes.observe(8)
    waits.tell()
    sizes.tell()
    (counts,) = recent._slots.values()
    assert counts == {f"wait:fast:{step_of(0.004)}": 2, f"wait:fast:{step_of(3.0)}": 1, "batch:8": 1}


def test_whoever_asks_the_process_has_all_of_them() -> None:
    telemetry = Telemetry()
    telemetry.request_time["fast"].observe(0.2)
    assert telemetry.registry.get_sample_value("doublebuffer_request_seconds_count", {"lane": "fast"}) == 1
    telemetry.request_time["fast"].observe(0.2)
    assert b'doublebuffer_request_seconds_count{lane="fast"} 2.0' in telemetry.exposition(None)


def test_where_another_process_may_be_asked_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "somewhere")
    telemetry = Telemetry()
    telemetry.inter_token["fast"].observe(0.2)
    count = next(iter(telemetry.inter_token["fast"]._child._buckets[-1:])).get()
    assert (telemetry.inter_token["fast"]._seen, count) == ([], 0)
    assert telemetry.inter_token["fast"]._child._sum.get() == 0.2
