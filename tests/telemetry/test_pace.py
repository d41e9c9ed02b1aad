"""When tokens came, in few numbers."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.pace import MOST_POINTS, Pace, read_pace

GRANTED_US = 1_764_510_000_000_000


def test_a_short_answer_is_told_piece_by_piece() -> None:
    pace = Pace(GRANTED_US)
    pace.piece(0.010, 512)
    pace.piece(0.030, 1024)
    for number in range(1, 6):
        pace.tokens(0.1 * number, number)
    told = read_pace(pace.encoded())
    assert told.pieces == [(GRANTED_US + 10_000, 512), (GRANTED_US + 30_000, 1024)]
    assert told.tokens == [(GRANTED_US + 1000 * int(100 * n + 1e-9), n) for n in range(1, 6)]


def test_one_of_which_nothing_came_costs_nothing() -> None:
    assert Pace(GRANTED_US).encoded() == b""
    assert read_pace(b"").tokens == read_pace(b"").pieces == []


def test_a_long_one_takes_little_room() -> None:
    pace = Pace(GRANTED_US)
    for number in range(1, 100_001):
        pace.tokens(number / 50, number)
    assert len(pace.encoded()) < 400
    points = read_pace(pace.encoded()).tokens
    assert points[0] == (GRANTED_US + 20_000, 1)
    assert points[-1][1] == 100_000
    gaps = [after[0] - before[0] for before, after in pairwise(points)]
    assert max(gaps) < 2_000_000_000 / 10


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 50)), max_size=400), st.integers(0, 60))
def test_any_pace(steps: list[tuple[int, int]], pieces: int) -> None:
    """At most so many points, in order, from the first to the very last; and what is told was so."""
    pace = Pace(GRANTED_US)
    for number in range(pieces):
        pace.piece(number / 10, 512 * (number + 1))
    at_ms, tokens, real = 0, 0, []
    for wait_ms, more in steps:
        at_ms, tokens = at_ms + wait_ms, tokens + more
        pace.tokens(at_ms / 1000 + 1e-7, tokens)
        real.append((GRANTED_US + 1000 * at_ms, tokens))
    told = read_pace(pace.encoded())
    assert len(told.tokens) + len(told.pieces) <= MOST_POINTS
    assert set(told.tokens) <= set(real)
    assert told.tokens == sorted(told.tokens)
    assert told.tokens[-1:] == real[-1:]
    assert told.tokens[:1] == real[:1]
    assert told.pieces == sorted(told.pieces)
    assert bool(told.pieces) == bool(pieces)
    if pieces:
        assert told.pieces[-1][1] == 512 * pieces
    assert read_pace(pace.encoded()) == told


def test_what_is_no_pace_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        read_pace(b"\xc1")
