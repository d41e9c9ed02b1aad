"""What is believed of a lane from when its jobs start."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.drain import Drain


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


def test_one_gap_that_held_up_all_is_not_counted_for_each_of_many() -> None:
    """As it was seen before an Ollama with one place: a lane that others pass for five seconds, and then starts ten
    times in a second."""
    drain = Drain()
    for _ in range(36):
        drain.came(17.0)
    at = 17.0
    for gap_s in (4.47, 0.22, 0.10, 1.72, 0.49):
        at += gap_s
        drain.went(at)
    assert 20.0 < drain.wait_s(32, at + 3.3) < 80.0, "each as long as the longest were two minutes"
    at += 6.73
    drain.went(at)
    assert drain.wait_s(31, at) < 110.0
    for _ in range(10):
        at += 0.2
        drain.went(at)
    assert drain.wait_s(21, at) < 40.0


def test_the_first_gap_may_be_an_odd_one() -> None:
    """As it was seen on a busy machine: the lane was passed for 17 s, while others started twice a second."""
    drain = Drain(told_s=0.5)
    for _ in range(34):
        drain.came(0.0)
    drain.went(17.06)
    assert 17.0 < drain.wait_s(34, 17.1) < 100.0, "of the gap alone, nine minutes"
    for k in range(20):
        drain.went(19.1 + 2 * k)
    assert drain.wait_s(14, 57.1) > 25.0, "what is seen again and again is believed"


@given(st.lists(st.floats(0.01, 60.0), min_size=1, max_size=50))
def test_nobody_waits_less_for_having_more_before_him(gaps: list[float]) -> None:
    drain, at = Drain(), 0.0
    for _ in range(80):
        drain.came(at)
    for gap_s in gaps:
        at += gap_s
        drain.went(at)
    waits = [drain.wait_s(ahead, at) for ahead in range(1, 80)]
    assert all(later >= 0.8 * earlier for earlier, later in itertools.pairwise(waits))
    assert min(waits[5:]) >= 0.999 * waits[5]


def test_what_back_ends_tell_counts_until_gaps_were_seen() -> None:
    drain = Drain(told_s=4.0)
    for _ in range(40):
        drain.came(0.0)
    assert drain.wait_s(10, 0.0) == 40.0
    assert drain.wait_s(10, 0.0, alone_s=9.0) == 40.0
    drain.went(5.0)
    assert drain.wait_s(1, 5.0) == pytest.approx(4.4)
    for k in range(30):
        drain.went(5.0 + (k + 1) / 10)
    assert drain.wait_s(9, 8.0) == pytest.approx(0.9, rel=0.1)


def test_what_is_told_is_believed_by_half_where_it_lets_nobody_in() -> None:
    drain = Drain(told_s=4.0)
    drain.came(0.0)
    for at in (0.0, 11.0):
        drain.refused(at)
    assert drain.usual_s() == 2.0


def test_free_places_are_no_wait_and_fill_without_telling_anything() -> None:
    drain = Drain(told_s=4.0)
    for _ in range(3):
        drain.came(0.0)
    assert drain.wait_s(4, 0.01, free=4) == 0.0
    assert drain.wait_s(4, 0.01, free=2) == 8.0
    drain.went(0.02, room=True)
    drain.went(0.02, room=True)
    assert drain.usual_s() == 4.0
    assert drain.wait_s(2, 1.0, free=2) == 8.0, "it would have started by now"
