from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.breaker import Breaker


def test_opens_after_failures_in_a_row_and_lets_one_through_after_the_cooldown() -> None:
    breaker = Breaker(failures=3, cooldown_s=10.0)
    breaker.failed(0.0)
    breaker.failed(1.0)
    breaker.succeeded()
    breaker.failed(2.0)
    breaker.failed(3.0)
    assert (breaker.state(3.0), breaker.places(3.0), breaker.wait_s(3.0)) == ("closed", None, None)
    breaker.failed(4.0)
    assert (breaker.state(4.0), breaker.places(4.0), breaker.wait_s(6.0)) == ("open", 0, 8.0)
    assert (breaker.state(14.0), breaker.places(14.0), breaker.wait_s(14.0)) == ("half-open", 1, None)
    breaker.started(14.0)
    assert breaker.places(14.0) == 0
    breaker.failed(15.0)
    assert breaker.wait_s(15.0) == 10.0
    breaker.started(26.0)
    breaker.succeeded()
    assert (breaker.state(26.0), breaker.places(26.0)) == ("closed", None)


def test_the_attempts_of_one_job_are_one_failure() -> None:
    breaker = Breaker(failures=2, cooldown_s=10.0)
    for now_at in (0.0, 1.0, 2.0):
        breaker.failed(now_at, by="one")
    assert breaker.state(2.0) == "closed"
    breaker.failed(3.0, by="two")
    assert breaker.state(3.0) == "open"


def test_an_engine_that_cannot_be_reached_fails_at_each_attempt() -> None:
    breaker = Breaker(failures=2, cooldown_s=10.0)
    breaker.failed(0.0)
    breaker.failed(1.0)
    assert breaker.state(1.0) == "open"


def test_late_failures_don_t_keep_it_open_longer() -> None:
    breaker = Breaker(failures=1, cooldown_s=10.0)
    breaker.failed(0.0)
    breaker.failed(9.0)
    assert breaker.state(10.0) == "half-open"


def test_a_trial_that_tells_nothing_is_made_again() -> None:
    breaker = Breaker(failures=1, cooldown_s=1.0)
    breaker.failed(0.0)
    breaker.started(2.0)
    assert breaker.places(2.0) == 0
    breaker.undecided()
    assert breaker.places(2.0) == 1


@given(st.lists(st.tuples(st.sampled_from(["started", "failed", "succeeded", "undecided"]), st.floats(0, 5))))
def test_it_never_stays_shut(events: list[tuple[str, float]]) -> None:
    breaker, now_at = Breaker(failures=2, cooldown_s=4.0), 0.0
    for name, gap in events:
        now_at += gap
        if name in ("started", "failed"):
            getattr(breaker, name)(now_at)
        else:
            getattr(breaker, name)()
        wait = breaker.wait_s(now_at)
        assert (wait is not None) == (breaker.state(now_at) == "open")
        assert wait is None or 0 < wait <= 4.0 + 1e-6
    breaker.undecided()
    assert breaker.places(now_at + 4.1) != 0
