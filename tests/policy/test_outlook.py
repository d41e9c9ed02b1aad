"""What back ends tell of a wait that nobody has had yet."""

from __future__ import annotations

import pytest

from policy.learned import UNKNOWN, Learned, together
from policy.outlook import Outlook, outlook


def learned(*, answers: int = 20, tokens: int = 80) -> Learned:
    """Answers of the lane ``fast``, at 40 tokens a second."""
    it = Learned()
    for _ in range(answers):
        it.writing(tokens, tokens / 40)
        it.answer("fast", tokens)
    return it


def test_a_gap_is_an_answer_over_the_places() -> None:
    figures = together([learned(answers=200).told()])
    got = outlook(figures, [(2, 0), (2, 0)], lane="fast", new_tokens=40, claim=100)
    assert (got.places, got.alone_s) == (4, 0.0)
    assert got.told_s == pytest.approx(2.01 / 4, rel=0.05)
    short = outlook(figures, [(2, 0)], lane="fast", new_tokens=40, claim=100, max_tokens=8)
    assert short.told_s == pytest.approx(0.21 / 2, rel=0.05)


def test_memory_may_have_room_for_fewer() -> None:
    figures = together([learned().told()])
    assert outlook(figures, [(32, 1000)], lane="fast", new_tokens=4, claim=400).places == 2
    assert outlook(figures, [(32, 1000)], lane="fast", new_tokens=4, claim=4000).places == 1


def test_prompts_are_read_one_by_one() -> None:
    told = learned()
    for _ in range(20):
        told.prefill(4000, 4.0)
    figures = together([told.told()])
    assert outlook(figures, [(32, 0)], lane="fast", new_tokens=3000, claim=1).told_s == pytest.approx(3.0)


@pytest.mark.parametrize("seen", [0, 1, 2])
def test_by_a_sample_or_two_nobody_is_refused(seen: int) -> None:
    figures = together([learned(answers=seen).told()])
    assert outlook(figures, [(2, 0)], lane="fast", new_tokens=4, claim=9, alone_s=3.0) == Outlook(3.0, 0.0, 2)
    assert outlook(UNKNOWN, [], lane="fast", new_tokens=4, claim=9) == Outlook()


def test_of_a_lane_that_nobody_asked_in_nothing_is_told() -> None:
    figures = together([learned().told()])
    assert outlook(figures, [(2, 0)], lane="thinking", new_tokens=4, claim=9).told_s == 0.0
    short = outlook(figures, [(1, 0)], lane="thinking", new_tokens=4, claim=9, max_tokens=20)
    assert short.told_s == pytest.approx(0.5, rel=0.05), "but it can be no longer than it may"
    assert outlook(figures, [(1, 0)], lane="thinking", new_tokens=4, claim=9, max_tokens=9_999).told_s == 0.0
