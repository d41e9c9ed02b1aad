from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy.window import Go, Hold, WindowPolicy, can_hold, decide


def test_adaptive_never_waits_before_an_engine_that_batches_itself() -> None:
    assert not can_hold("adaptive", 0.05)
    assert decide("adaptive", window_s=0.05, batch_size=8, waiting=1, oldest_wait_s=0.0, arrivals_per_s=1000) == Go()


def test_fixed_waits_out_what_is_left_of_the_window() -> None:
    assert can_hold("fixed", 0.05)
    held = decide("fixed", window_s=0.05, batch_size=8, waiting=1, oldest_wait_s=0.02)
    assert isinstance(held, Hold)
    assert 0.0299 < held.for_s < 0.0301
    assert decide("fixed", window_s=0.05, batch_size=8, waiting=1, oldest_wait_s=0.05) == Go()


def test_a_full_batch_goes() -> None:
    assert decide("fixed", window_s=0.05, batch_size=8, waiting=8, oldest_wait_s=0.0) == Go()
    assert isinstance(decide("fixed", window_s=0.05, batch_size=8, waiting=7, oldest_wait_s=0.0), Hold)


def test_no_window_at_all() -> None:
    assert not can_hold("fixed", 0.0)
    assert decide("fixed", window_s=0.0, batch_size=8, waiting=1, oldest_wait_s=0.0) == Go()


def test_adaptive_before_a_static_engine_waits_only_where_it_pays() -> None:
    assert can_hold("adaptive", 0.05, batches_itself=False)

    def at(rate: float) -> Hold | Go:
        return decide(
            "adaptive",
            window_s=0.05,
            batch_size=8,
            waiting=2,
            oldest_wait_s=0.0,
            batches_itself=False,
            arrivals_per_s=rate,
        )

    assert at(0.0) == Go()
    assert at(5.0) == Go(), "nobody is expected in time"
    assert isinstance(at(200.0), Hold)


@given(
    st.sampled_from(["adaptive", "fixed"]),
    st.floats(0, 1),
    st.tuples(st.integers(1, 32), st.integers(0, 64)),
    st.floats(-1, 5),
    st.sampled_from([None, 0.0, 5.0, 100.0, 1000.0]),
)
def test_never_longer_than_the_window(
    policy: WindowPolicy, window_s: float, jobs: tuple[int, int], waited_s: float, static: float | None
) -> None:
    batch, waiting = jobs
    got = decide(
        policy,
        window_s=window_s,
        batch_size=batch,
        waiting=waiting,
        oldest_wait_s=waited_s,
        batches_itself=static is None,
        arrivals_per_s=static or 0.0,
    )
    if isinstance(got, Hold):
        assert 0 < got.for_s <= window_s
        assert got.for_s + waited_s <= window_s + 1e-9 or waited_s < 0
        assert 0 < waiting < batch
        assert can_hold(policy, window_s, batches_itself=static is None)
