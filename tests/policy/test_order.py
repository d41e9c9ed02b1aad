from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.lane import LANES
from policy.order import Turns, due_after_s, offset_s


def test_offsets_are_shares_of_the_longest_wait() -> None:
    assert [offset_s(lane, 0.0, 60.0) for lane in LANES] == [0.0, 2.0, 15.0, 60.0, 60.0]
    assert offset_s("thinking", 1.5, 60.0) == 6.0
    assert offset_s("normal", 100.0, 60.0) == 60.0
    with pytest.raises(KeyError):
        offset_s("urgent", 0.0, 60.0)


@given(st.sampled_from(LANES), st.floats(0, 1e4), st.floats(0.1, 3600))
def test_an_offset_never_passes_the_longest_wait(lane: str, prefill: float, longest: float) -> None:
    assert 0 <= offset_s(lane, prefill, longest) <= longest
    assert offset_s(lane, prefill, longest) <= offset_s(lane, prefill + 1, longest)


def test_background_is_never_due() -> None:
    assert due_after_s("background", 60.0) is None
    assert due_after_s("slow", 60.0) == 60.0


def test_nobody_passes_himself() -> None:
    turns = Turns()
    assert [turns.tag("a", 100) for _ in range(3)] == [0, 100, 200]
    turns.went(100)
    for tag in (0, 100):
        turns.correct("a", -99, tag + 1)
    assert turns.tag("a", 100) == 200, "one waits still, though the account is at 102"
    turns.went(200)
    turns.correct("a", -150, 51)
    assert turns.tag("a", 100) == 200


def test_turns_by_tokens_and_the_account_is_forgotten() -> None:
    turns = Turns()
    assert [turns.tag("a", 100) for _ in range(3)] == [0, 100, 200]
    assert turns.tag("b", 10) == 0
    turns.went(100)
    assert turns.tag("b", 10) == 100, "nobody saves up turns by staying away"
    turns.correct("a", -150, 150)
    assert turns.tag("a", 1) == 200, "behind its last one"
    turns.went(1000)
    assert turns.tag("a", 1) == 1000
    turns.went(2000)
    turns.correct("a", 900, 1900)
    assert turns.tag("a", 1) == 2000, "forgotten: a turn that is past is not kept"
    turns.went(3000)
    turns.correct("a", 5000, 7000)
    assert turns.tag("a", 1) == 7000, "forgotten: one that lies ahead is"
