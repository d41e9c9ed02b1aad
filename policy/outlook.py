"""What is known of a wait before anybody of that lane was seen to wait: by what the back ends of a model tell of
themselves. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from policy.credit import KV_SHARE
from policy.learned import Figures


class Outlook(NamedTuple):
    """Of a job that comes in."""

    alone_s: float = 0.0
    """The seconds that it takes on an engine of its own, if that is long, else 0."""
    told_s: float = 0.0
    """Between two starts of jobs like it, while all places are taken; 0: nobody can tell yet."""
    places: int = 0
    """Jobs like it that its back ends run side by side; 0: they do not tell."""


NOTHING: Final = Outlook()


def outlook(
    figures: Figures,
    engines: Iterable[tuple[int, int]],
    *,
    lane: str,
    new_tokens: int,
    claim: int,
    max_tokens: int | None = None,
    alone_s: float = 0.0,
) -> Outlook:
    """``engines``: places and tokens of memory (0: not told) of each back end; ``new_tokens``: what it has to read of
    the prompt; ``claim``: what it takes of the memory.

    A gap is what a job takes over the places, and at least what its prompt takes: prompts are read one by one.
    """
    answer_s = figures.answer_s(lane, max_tokens)
    read_s = new_tokens / figures.prefill_rate
    all_places, per_s = 0, 0.0
    for places, memory in engines:
        if memory:
            places = min(places, int(memory * KV_SHARE) // max(1, claim))  # noqa: PLW2901
        places = max(1, places)  # noqa: PLW2901
        all_places += places
        if answer_s:
            per_s += 1 / max(read_s, (read_s + answer_s) / places)
    return Outlook(alone_s, 1 / per_s if per_s else 0.0, all_places)
