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
EMPTIER_S: Final = 0.025
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


class Queue(NamedTuple):
    """What waits for one model."""

    model: str
    score: float
    """The lowest; of people's jobs where there are any."""
    arr_at: float
    """When the one of that score came."""
    oldest_at: float | None = None
    """When the person's job came that has waited longest; None: only background work waits."""


class Memory(NamedTuple):
    """What an engine has in memory that loads another model in place of the one that it has."""

    models: Collection[str] = ()
    """Usually one; an engine that keeps several has them side by side. Empty: none, as far as anybody knows."""
    swapped_at: float = float("-inf")
    """When the last swap began."""
    pending: bool = False
    """It has not yet: jobs of the model before run there still."""
    busy: bool = False
    """Jobs run there."""


class Served(NamedTuple):
    models: list[str]
    """Models whose jobs may go now."""
    look_at: float | None = None
    """When it may be others; None: not before something happens."""


def to_serve(queues: Sequence[Queue], memory: Memory, now_at: float, ready: Collection[str] = ()) -> Served:
    """Of which models jobs may go to an engine that swaps them. ``ready``: models that another back end has in memory,
    with a place free.

    Those in memory go first. Another one only when no person's job waits for these and nothing runs, or the last swap
    was ``SWAP_S`` ago; or its oldest has waited for so long, and the last swap was as long ago.
    """
    here = [queue for queue in queues if queue.model in memory.models]
    others = [queue for queue in queues if queue.model not in memory.models]
    stay = [queue.model for queue in here]
    if not others:
        return Served(stay)
    again_at = memory.swapped_at + SWAP_S
    if any(queue.oldest_at is not None for queue in here):
        waits = [(queue.oldest_at, queue.model) for queue in others if queue.oldest_at is not None]
        if not waits:
            return Served(stay)
        oldest_at, model = min(waits, key=lambda wait: wait[0])
        due_at = max(oldest_at + SWAP_S, again_at)
        if memory.pending or now_at < due_at:
            return Served(stay, None if memory.pending else due_at)
        return Served([model])
    people = [queue for queue in others if queue.oldest_at is not None]
    if here and not people:
        return Served(stay)
    next_one = min(people or others, key=lambda queue: queue.score)
    if next_one.model in ready and now_at < next_one.arr_at + NEAR_S:
        return Served(stay, next_one.arr_at + NEAR_S)
    if memory.busy and (memory.pending or now_at < again_at):
        return Served(stay, None if memory.pending else again_at)
    return Served([next_one.model])
