"""Hold or go. Pure.

Jobs collect while the engine is full, and that is when batches form. An engine that batches by itself gains nothing
from a pause before it, so the adaptive window closes at once; the fixed one is there for comparison, and for engines
that batch statically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

WindowPolicy = Literal["adaptive", "fixed"]

COMPANION_GAIN_S: Final = 0.03
"""What a job saves by going with others on an engine that runs one batch after the other, a step or two."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait for companions, ``for_s`` seconds at most, and look again when a job comes in."""

    for_s: float


@dataclass(frozen=True, slots=True)
class Go:
    """Send what is there."""


GO: Final = Go()


def can_hold(policy: WindowPolicy, window_s: float, *, batches_itself: bool = True) -> bool:
    """Whether ``decide`` could ever say ``Hold``: if not, nobody needs to count what waits."""
    return window_s > 0 and (policy == "fixed" or not batches_itself)


def decide(
    policy: WindowPolicy,
    *,
    window_s: float,
    batch_size: int,
    waiting: int,
    oldest_wait_s: float,
    batches_itself: bool = True,
    arrivals_per_s: float = 0.0,
) -> Hold | Go:
    """``waiting`` jobs stand before an engine with room, the oldest for ``oldest_wait_s``.

    With none waiting it says ``Go``: there is nothing to hold back. ``arrivals_per_s`` counts only for an engine that
    does not batch by itself: the adaptive window then stays open while the companions expected in what is left of it
    gain more than the waiting lose.
    """
    left_s = window_s - max(0.0, oldest_wait_s)
    if waiting == 0 or waiting >= batch_size or left_s <= 0:
        return GO
    if policy == "fixed":
        return Hold(left_s)
    if batches_itself or arrivals_per_s <= 0:
        return GO
    next_s = 1.0 / arrivals_per_s
    if next_s > left_s or waiting * next_s > (waiting + 1) * COMPANION_GAIN_S:
        return GO
    return Hold(left_s)
