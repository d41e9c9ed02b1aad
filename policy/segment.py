"""Long prompts in pieces: an engine that remembers prefixes reads one in several turns, and others go between. Pure."""

from __future__ import annotations

from typing import Final

QUARTERS: Final = 4
"""A piece is one to four quarters of a segment, so that it ends with a whole block of any engine's prefix cache."""
EVEN_TOKENS: Final = 24_000
"""Depth at which the attention to what was read before costs an engine as much as all else of a prompt's token."""

PAUSE: Final = 0.25
"""Of the time that a segment takes an engine to read."""

HEED_S: Final = 60.0
"""For so long after a person's job went to a back end, background work is read there with care."""
CARE: Final = 8
"""Then its pieces are so many times smaller: as much as an engine reads in a step that takes no longer for it."""
CARE_AHEAD: Final = 2
"""and so many of them may be on their way:"""
CARE_PAUSE: Final = 0.5
"""sent this part of the pause apart, so that an engine takes them in two steps."""


def piece_tokens(read: int, segment: int, free: float = 1.0) -> int:
    """Tokens of the piece that follows ``read`` tokens, ``free`` of the engine's memory (0 to 1) being taken by nobody.

    As many as take the engine no longer than the first ``segment`` tokens of a prompt do, and the fewer the fuller it
    is: then many wait for each of its steps, and what is read sooner finds no room to write. A quarter at least.
    """
    size = int(segment * EVEN_TOKENS / (EVEN_TOKENS + read) * min(1.0, max(0.0, free)))
    quarter = max(1, segment // QUARTERS)
    return max(quarter, size - size % quarter)


def next_piece(prompt: int, read: int, segment: int, free: float = 1.0) -> int | None:
    """Up to which token the next piece of a prompt goes, ``read`` of its ``prompt`` tokens being in the engine's prefix
    cache. None: all of it, answer included. ``segment``: tokens of the largest piece; 0: prompts go whole.
    """
    if not segment:
        return None
    size = piece_tokens(read, segment, free)
    return None if prompt - read <= size + segment // QUARTERS // 2 else read + size


def careful_segment(segment: int) -> int:
    """Tokens of a piece of background work, while people are about; so few cost hardly more far into a prompt."""
    return max(1, segment // CARE)


def careful_piece(prompt: int, read: int, segment: int) -> int | None:
    """As ``next_piece``, of background work while people are about."""
    size = careful_segment(segment)
    return None if prompt - read <= size + size // QUARTERS // 2 else read + size


def prefill_room(segment: int, free: float = 1.0) -> int:
    """Prompt tokens that may be on their way to a first token: two pieces, one that is read and one that comes next."""
    return 2 * piece_tokens(0, segment, free)


def pause_s(segment: int, rate: float) -> float:
    """Seconds that the next piece is held back after one was sent, of whatever job, before an engine that reads
    ``rate`` tokens a second: else it would take both in one step, and have none for the next.
    """
    return PAUSE * segment / rate if rate > 0 else 0.0


def pause_after(tokens: int, segment: int, pause: float) -> float:
    """The part of ``pause`` that a prompt of so many ``tokens`` is worth: all of it from a least piece on. Many small
    ones, one after the other, would else hold back for ever what is read in pieces.
    """
    return pause * min(1.0, tokens / max(1, segment // QUARTERS))
