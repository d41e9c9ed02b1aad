"""How many workers there should be."""

from __future__ import annotations

import pytest

from policy.crew import IDLE_S, LACKING_S, SETTLING_S, Crew, Place, lacks


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Place(free=1, oldest_s=1.5, full=False), True),
        (Place(free=0, oldest_s=9.0, full=False), False),
        (Place(free=4, oldest_s=0.5, full=False), False),
        (Place(free=4, oldest_s=9.0, full=True), False),
    ],
)
def test_it_takes_who_waits_and_a_place(place: Place, expected: bool) -> None:
    assert lacks([Place(free=9, oldest_s=0.0, full=False), place]) is expected


def test_the_least_are_there_at_once() -> None:
    assert Crew(2, 4).step(1, lacking=False, running=0, now_at=0.0) == 1


def test_one_more_for_a_lack_that_lasts_and_not_two_at_once() -> None:
    crew = Crew(1, 3)
    assert crew.step(1, lacking=True, running=5, now_at=100.0) == 0
    assert crew.step(1, lacking=False, running=5, now_at=101.0) == 0
    assert crew.step(1, lacking=True, running=5, now_at=102.0) == 0
    assert crew.step(1, lacking=True, running=5, now_at=102.0 + LACKING_S) == 1
    for since_s in (1.0, 3.0, SETTLING_S - 0.1):
        assert crew.step(2, lacking=True, running=5, now_at=104.0 + since_s) == 0
    assert crew.step(2, lacking=True, running=5, now_at=104.0 + SETTLING_S) == 1


def test_never_more_than_the_most() -> None:
    crew = Crew(1, 2)
    crew.step(2, lacking=True, running=9, now_at=0.0)
    assert crew.step(2, lacking=True, running=9, now_at=100.0) == 0


def test_one_by_one_they_go_when_there_is_little_to_do() -> None:
    crew = Crew(1, 3)
    assert crew.step(3, lacking=False, running=2, now_at=0.0) == 0
    assert crew.step(3, lacking=False, running=3, now_at=IDLE_S - 1) == 0
    assert crew.step(3, lacking=False, running=0, now_at=IDLE_S) == 0
    assert crew.step(3, lacking=False, running=0, now_at=2 * IDLE_S) == -1
    assert crew.step(2, lacking=False, running=0, now_at=2 * IDLE_S + 1) == 0
    assert crew.step(2, lacking=False, running=0, now_at=3 * IDLE_S + 1) == -1
    assert crew.step(1, lacking=False, running=0, now_at=9 * IDLE_S) == 0
    assert crew.step(1, lacking=False, running=0, now_at=20 * IDLE_S) == 0
