from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.estimate import (
    Average,
    Drain,
    OutputLengths,
    Rate,
    estimate_tokens,
    expected_output,
    predicted_wait_s,
    prefill_s,
    retry_after_s,
)


def test_tokens_of_text_images_and_messages() -> None:
    assert estimate_tokens(0) == 1
    assert estimate_tokens(400) == 100
    assert estimate_tokens(400, images=2, messages=3) == 100 + 2000 + 15


def test_prefill_time_and_an_unknown_rate() -> None:
    assert prefill_s(9000, 4500) == 2.0
    assert prefill_s(100, 0) == 0.0


def test_an_answer_is_never_expected_longer_than_allowed() -> None:
    assert expected_output("thinking") == 1024
    assert expected_output("thinking", 10) == 10
    assert expected_output("fast", 100_000) == 128
    lengths = OutputLengths()
    for _ in range(200):
        lengths.add("fast", 900)
    assert 850 <= lengths.expected("fast") <= 900
    assert lengths.expected("fast", 5) == 5
    assert lengths.expected("slow") == expected_output("slow")


def test_average_starts_with_what_it_sees() -> None:
    average = Average(weight=0.5)
    assert average.value is None
    average.add(10.0)
    average.add(20.0)
    assert average.value == 15.0


@given(st.floats(0.05, 50.0), st.integers(20, 400))
def test_a_steady_rate_is_found_soon_and_kept(per_s: float, count: int) -> None:
    rate = Rate(half_life_s=30)
    for k in range(count):
        rate.add(k / per_s)
    end = count / per_s
    if end > 5:
        assert rate.per_s(end) == pytest.approx(per_s, rel=0.25)


def test_a_rate_fades_when_nothing_comes() -> None:
    rate = Rate(half_life_s=10)
    assert rate.per_s(5.0) == 0.0
    for k in range(100):
        rate.add(float(k))
    assert rate.per_s(100.0) > 4 * rate.per_s(130.0) > 0


def test_the_predicted_wait() -> None:
    assert predicted_wait_s(10, 0.0) == 0.0, "a service that has answered nothing yet must not refuse"
    assert predicted_wait_s(10, 2.0) == 5.0
    assert predicted_wait_s(10, 2.0, room=True) == 0.0
    assert predicted_wait_s(10, 2.0, passing_rate=1.0) == 10.0
    assert predicted_wait_s(10, 2.0, passing_rate=9.0) == 20.0, "the preference of others is bounded"


@given(st.floats(0, 1e6), st.floats(0, 1e4))
def test_retry_after_is_whole_seconds_within_two_minutes(waiting: float, rate: float) -> None:
    assert 1 <= retry_after_s(waiting, rate) <= 120


def test_a_drain_counts_only_while_somebody_waits() -> None:
    drain = Drain()
    assert drain.per_s(0.0) == 0.0
    drain.came(0.0)
    drain.went(0.0)
    assert drain.per_s(3_600.0) == 0.0
    drain.came(3_600.0)
    drain.came(3_601.0)
    drain.went(3_620.0)
    drain.went(3_640.0)
    assert drain.per_s(3_640.0) == pytest.approx(1 / 20)
    assert drain.per_s(9_999.0) == pytest.approx(1 / 20)


def test_a_gap_that_lasts_is_believed_before_it_ends() -> None:
    drain = Drain()
    drain.came(0.0)
    drain.went(0.0)
    drain.came(0.0)
    drain.came(0.0)
    assert drain.per_s(30.0) == pytest.approx(1 / 30)
    assert drain.per_s(1.0, alone_s=16.0) == pytest.approx(1 / 16)


def test_gaps_that_differ_are_reckoned_longer() -> None:
    even, uneven = Drain(), Drain()
    for drain, gaps in ((even, (10.0, 10.0) * 20), (uneven, (5.0, 15.0) * 20)):
        at = 0.0
        drain.came(at)
        for gap in gaps:
            drain.came(at)
            at += gap
            drain.went(at)
    assert uneven.per_s(at) < even.per_s(at) == pytest.approx(0.1)


def test_the_wait_is_what_those_before_it_take() -> None:
    drain = Drain()
    drain.came(0.0)
    assert drain.wait_s(2, 50.0) == 0.0, "nothing was seen yet"
    assert drain.wait_s(2, 0.0, alone_s=10.0) == 20.0
    for at in (0.0, 0.0, 0.0, 0.0, 0.0):
        drain.came(at)
    for at in (2.0, 4.0, 6.0):
        drain.went(at)
    assert drain.waiting == 3
    assert drain.wait_s(4, 6.0) == pytest.approx(8.0)
    assert drain.wait_s(4, 26.0) == pytest.approx(46.0), "all are held up together, and for as long again"
    drain.left()
    assert drain.waiting == 2


def test_a_gap_that_was_long_once_is_not_believed_for_ever() -> None:
    drain = Drain()
    for at in (0.0, 0.0):
        drain.came(at)
    drain.went(30.0)
    drain.went(30.0)
    waits = []
    for at in (31.0, 60.0, 91.0, 120.0, 121.0, 130.0):
        waits.append(drain.wait_s(2, at))
        drain.refused(at)
    assert waits == [60.0, 60.0, 60.0, 30.0, 30.0, 15.0], "by half after 60 s of refusals, by half again after 30"


def test_a_gap_that_is_seen_again_and_again_is_believed() -> None:
    drain = Drain()
    drain.came(0.0)
    for at in range(0, 400, 20):
        drain.came(float(at))
        drain.went(at + 20.0)
        drain.refused(at + 20.0)
        drain.refused(at + 39.0)
    assert drain.per_s(400.0) == pytest.approx(1 / 20)
