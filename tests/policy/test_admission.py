from __future__ import annotations

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
    assert got.reason == "The queue is full (9 requests are waiting); try again later."
    assert got.retry_after_s == 5
