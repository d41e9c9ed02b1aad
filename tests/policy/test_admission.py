from __future__ import annotations

import pytest

from policy.admission import Accept, Refuse, admit


def test_a_full_queue_refuses_the_service_as_a_whole() -> None:
    got = admit("fast", waiting=100, queue_limit=100, predicted_wait_s=0, refuse_wait=120.0, drain_rate=5.0)
    assert isinstance(got, Refuse)
    assert (got.status, got.retry_after_s) == (503, 10)
    assert admit("fast", waiting=99, queue_limit=100, predicted_wait_s=0, refuse_wait=120.0, drain_rate=5) == Accept()


def test_a_predicted_wait_by_one_number_or_by_lane() -> None:
    got = admit("slow", waiting=9, queue_limit=100, predicted_wait_s=150, refuse_wait=120.0, drain_rate=1.0)
    assert isinstance(got, Refuse)
    assert got.status == 503
    assert 30 <= got.retry_after_s <= 31
    by_lane = {"fast": 5.0}
    assert isinstance(
        admit("fast", waiting=9, queue_limit=100, predicted_wait_s=6, refuse_wait=by_lane, drain_rate=1.0), Refuse
    )
    assert (
        admit("slow", waiting=9, queue_limit=100, predicted_wait_s=600, refuse_wait=by_lane, drain_rate=1.0) == Accept()
    )


def test_the_sentence_names_nothing_of_the_request() -> None:
    got = admit("fast", waiting=9, queue_limit=9, predicted_wait_s=6, refuse_wait=1.0, drain_rate=0.0)
    assert isinstance(got, Refuse)
    assert got.reason == "The queue is full (9 requests are waiting); try again in 5 s."
    assert got.retry_after_s == 5


@pytest.mark.parametrize(
    ("wait_s", "longest_s", "said"),
    [
        (1.04, 1.0, "(1.1 s) is over the 1 s"),
        (0.96, 0.5, "(1 s) is over the 0.5 s"),
        (0.26, 0.25, "(0.3 s) is over the 0.25 s"),
        (21.2, 8.0, "(22 s) is over the 8 s"),
        (120.4, 120.0, "(121 s) is over the 120 s"),
        (3_000_000.0, 1_234_567.0, "(3000000 s) is over the 1234567 s"),
    ],
)
def test_a_wait_that_is_over_a_bound_is_seen_to_be(wait_s: float, longest_s: float, said: str) -> None:
    got = admit("fast", waiting=0, queue_limit=9, predicted_wait_s=wait_s, refuse_wait=longest_s, drain_rate=0.5)
    assert isinstance(got, Refuse)
    assert got.reason == f"The expected wait {said} allowed; try again in {got.retry_after_s} s."
    assert got.later(77).reason == f"The expected wait {said} allowed; try again in 77 s."
