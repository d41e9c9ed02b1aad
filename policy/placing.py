"""To which of several back ends of a model a job goes, and which model one of them has in memory. Pure.

The store's ``pull`` script does the same for all workers at once; a test holds both together. Instants are seconds of
one clock. The study has a single engine, and nothing of this changes anything there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

NEAR_TOKENS: Final = 256
"""So much more of a prompt must one back end have read than any other to be worth a wait."""
SHARED_TOKENS: Final = 512
"""So much of a prompt that nobody has read must be under way elsewhere to be worth a wait."""
NEAR_S: Final = 0.25
"""How long after it came a job is left to the back end that holds its beginning."""
EMPTIER_S: Final = 0.01
"""How long after it came a job is left to a back end of which a smaller share is taken."""
BEHIND_S: Final = 10.0
"""How long after it came a job waits for the first of its shared prefix."""
SWAP_S: Final = 15.0
"""Between two swaps of an engine that keeps one model in memory while it has work; and the longest that a job waits
for one."""


def near(held: Mapping[str, int], able: Collection[str]) -> str:
    """The back end that jobs with this beginning are to go to; empty: none more than another. ``held``: tokens of it
    that each has read. ``able``: those that serve the model now."""
    if len(able) < 2:
        return ""
    first, second = sorted(able, key=lambda name: held.get(name, 0), reverse=True)[:2]
    return first if held.get(first, 0) - held.get(second, 0) >= NEAR_TOKENS else ""


class Place(NamedTuple):
    """A back end that a model's jobs may go to."""

    slots: int
    taken: int
    able: bool = True
    """Some worker tells that it is up."""
    ready: bool = True
    """Without loading another model first."""

    @property
    def free(self) -> bool:
        """Whether a job could begin there now."""
        return self.able and self.ready and self.taken < self.slots


def left_to_near(age_s: float, holder: Place | None) -> float:
    """Seconds for which a job is still left to the back end that holds its beginning; 0: no longer. ``holder``: that
    one, None if nothing is known of it."""
    return max(0.0, NEAR_S - age_s) if holder is not None and holder.free else 0.0


def left_to_emptier(age_s: float, own: Place, others: Sequence[Place]) -> float:
    """Seconds for which a job is still left to a back end of which a smaller share is taken; 0: there is none."""
    emptier = any(other.free and other.taken * own.slots < own.taken * other.slots for other in others)
    return max(0.0, EMPTIER_S - age_s) if emptier else 0.0
