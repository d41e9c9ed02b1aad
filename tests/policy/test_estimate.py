from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.estimate import (
    Average,
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
