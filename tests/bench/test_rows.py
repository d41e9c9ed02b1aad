"""Percentiles, ratios, and how many were in flight."""

from __future__ import annotations

import math

import pytest

from bench.counters import Counters, parse
from bench.rows import added_ms, ratios_of, row_of, rows_of
from tests.bench.answers import answer, run


def test_a_lane_s_figures_are_of_its_answers_alone() -> None:
    answers = [answer(at, first_s=0.1 * (at + 1)) for at in range(20)]
    answers += [answer(20, "slow", first_s=9.0), answer(21, outcome="refused"), answer(22, outcome="failed")]
    row = row_of([run("direct", 1, answers)], "fast", speed=1.0)
    assert (row.count, row.answered, row.refused, row.failed) == (22, 20, 1, 1)
    assert row.first_p50_ms == pytest.approx(1_000)
    assert row.first_p95_ms == pytest.approx(1_900)
    assert row.first_p99_ms == pytest.approx(2_000)
    assert row.token_p50_ms == pytest.approx(20)
    assert row.tokens_per_s == pytest.approx(20 * 11 / 9.2), "over the whole run, which the document ends"


def test_times_are_told_in_the_engine_s_own_clock() -> None:
    slow = row_of([run("direct", 1, [answer(0)])], "all", speed=1.0)
    fast = row_of([run("direct", 1, [answer(0)])], "all", speed=10.0)
    assert fast.first_p50_ms == pytest.approx(10 * slow.first_p50_ms)
    assert fast.tokens_per_s == pytest.approx(slow.tokens_per_s / 10)
    assert fast.in_flight == slow.in_flight


def test_an_answer_of_one_token_has_no_pace() -> None:
    row = row_of([run("direct", 1, [answer(0, tokens=1)])], "all", speed=1.0)
    assert math.isnan(row.token_p50_ms)
    assert row.tokens_per_s == pytest.approx(10)


def test_in_flight_is_time_at_the_engine_by_time_with_anybody_there() -> None:
    # Three of 0.3 s, two of them at the same time, and a pause in between that does not count.
    answers = [answer(0), answer(1), answer(2, "slow", sent_at=5.0)]
    assert row_of([run("direct", 1, answers)], "all", speed=1.0).in_flight == pytest.approx(0.9 / 0.6)
    assert row_of([run("direct", 1, answers)], "fast", speed=1.0).in_flight == pytest.approx(0.6 / 0.6)
    # The gateway says that the second has waited for half of that, and that the third was a middle one.
    answers[2].gateway_lane = "normal"
    told = Counters({"fast": 0.15, "normal": 0.0}, batches=2.0, in_batches=3.0)
    whole = row_of([run("gateway", 1, answers, told)], "all", speed=1.0)
    assert whole.in_flight == pytest.approx((0.9 - 0.15) / 0.6)
    assert whole.batch == pytest.approx(1.5)
    assert math.isnan(row_of([run("gateway", 1, answers)], "all", speed=1.0).in_flight), "nobody told"


def test_ratios_are_of_rounds_and_their_median_counts() -> None:
    runs = [
        one
        for number, ours in enumerate((0.1, 0.3, 0.2), start=1)
        for one in (run("direct", number, [answer(0, first_s=1.0)]), run("gateway", number, [answer(0, first_s=ours)]))
    ]
    rows = rows_of(runs, speed=2.0)
    assert {row.round for row in rows} == {0, 1, 2, 3}
    found = {(ratio.lane, ratio.of): ratio for ratio in ratios_of(rows)}
    ratio = found["fast", "first_p95_ms"]
    assert (ratio.median, ratio.least, ratio.most) == pytest.approx((0.2, 0.1, 0.3))
    added = {(one.lane, one.of): one.median for one in added_ms(rows, speed=2.0)}
    assert added["all", "first_p50_ms"] == pytest.approx(-800), "by the wall's clock, whatever the speed"


def test_counters_are_read_from_what_is_exposed_and_grow() -> None:
    gateway = (
        "# TYPE doublebuffer_queue_wait_seconds histogram\n"
        'doublebuffer_queue_wait_seconds_sum{lane="fast"} 1.5\n'
        'doublebuffer_queue_wait_seconds_count{lane="fast"} 3\n'
    )
    worker = (
        "# TYPE doublebuffer_batch_size histogram\ndoublebuffer_batch_size_sum 6\ndoublebuffer_batch_size_count 4\n"
    )
    engine = '# TYPE vllm:num_preemptions counter\nvllm:num_preemptions_total{engine="0"} 2\n'
    counters = parse(gateway, [worker, worker], engine)
    assert counters == Counters({"fast": 1.5}, 8.0, 12.0, 2.0)
    later = parse(gateway.replace("1.5", "4.0"), [worker, worker], engine)
    assert later.since(counters) == Counters({"fast": 2.5}, 0.0, 0.0, 0.0)
    assert parse("", [], "<html>").since(counters) == Counters({}, None, None, None)
