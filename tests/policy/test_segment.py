"""Long prompts in pieces."""

from __future__ import annotations

import pytest

from policy.segment import next_piece, pause_after, pause_s, piece_tokens, prefill_room


def test_a_piece_shrinks_with_what_was_read_and_with_the_memory_in_use() -> None:
    assert [piece_tokens(read, 512) for read in (0, 8_000, 24_000, 80_000)] == [512, 384, 256, 128]
    assert [piece_tokens(0, 512, free) for free in (1.0, 0.75, 0.5, 0.1, -0.2)] == [512, 384, 256, 128, 128]
    assert piece_tokens(24_000, 1_024, 0.5) == piece_tokens(24_000, 1_024, 0.99) == 256


@pytest.mark.parametrize("segment", [512, 1_024])
@pytest.mark.parametrize("prompt", [60, 512, 575, 4_000, 24_000, 24_001])
def test_pieces_follow_one_another_to_the_end(prompt: int, segment: int) -> None:
    read, pieces = 0, []
    while (upto := next_piece(prompt, read, segment, 0.3)) is not None:
        assert upto % (segment // 4) == 0
        pieces.append(upto - read)
        read = upto
    assert 0 < prompt - read <= segment
    assert all(0 < piece <= segment for piece in pieces)
    assert pieces == sorted(pieces, reverse=True)


def test_without_segments_a_prompt_goes_whole() -> None:
    assert next_piece(24_000, 0, 0) is None


def test_two_pieces_are_under_way_one_after_the_other() -> None:
    assert prefill_room(512, 0.5) == 512
    assert pause_s(512, 6_400.0) == pytest.approx(0.02)
    assert pause_s(512, 0.0) == 0.0


def test_less_than_a_piece_is_worth_its_part_of_the_pause() -> None:
    assert [pause_after(tokens, 512, 0.08) for tokens in (0, 32, 128, 4_000)] == [0.0, 0.02, 0.08, 0.08]
