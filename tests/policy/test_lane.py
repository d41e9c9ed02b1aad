from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.lane import LANES, Lane, LaneLimits, choose_lane, is_long, lower


@pytest.mark.parametrize(
    ("chars", "tokens", "thinking", "lane"),
    [
        (0, 1, False, "fast"),
        (99, 512, False, "fast"),
        (100, 10, False, "normal"),
        (1999, 4096, False, "normal"),
        (2000, 10, False, "slow"),
        (10, 513, False, "normal"),
        (10, 4097, False, "slow"),
        (10, 10, True, "thinking"),
        (1999, 4096, True, "thinking"),
        (2000, 10, True, "normal"),
        (10, 4097, True, "normal"),
    ],
)
def test_the_slower_of_two_readings(chars: int, tokens: int, thinking: bool, lane: Lane) -> None:
    assert choose_lane(chars, tokens, thinking=thinking) == lane


def test_background_is_background_whatever_its_length() -> None:
    assert choose_lane(5, 5, background=True) == choose_lane(9000, 9000, thinking=True, background=True) == "background"


def test_limits_are_settings() -> None:
    limits = LaneLimits(fast_chars=10, normal_chars=20, fast_tokens=30, normal_tokens=40)
    assert [choose_lane(chars, 1, limits=limits) for chars in (9, 10, 19, 20)] == ["fast", "normal", "normal", "slow"]
    assert [choose_lane(1, tokens, limits=limits) for tokens in (30, 31, 40, 41)] == [
        "fast",
        "normal",
        "normal",
        "slow",
    ]
    assert [is_long(tokens, limits) for tokens in (40, 41)] == [False, True]


@given(st.sampled_from(LANES), st.sampled_from([*LANES, "", "urgent"]))
def test_a_client_can_only_step_back(chosen: Lane, wished: str) -> None:
    got = lower(chosen, wished)
    assert LANES.index(got) >= LANES.index(chosen)
    if wished in LANES and LANES.index(wished) >= LANES.index(chosen):
        assert got == wished
    assert lower(chosen, wished, may_raise=True) == (wished if wished in LANES else chosen)
