"""What one back end carries, job by job: claims, and how far their prompts have been read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from policy.credit import Load, Need
from policy.lane import LANES, SHORT_LANES


@dataclass(slots=True)
class Carried:
    """A job at a back end. ``upto``: prompt tokens that were sent there; ``had``: those that are read."""

    id: str
    lane: str
    arr_at: float
    score: float
    kv: int
    long: bool
    prompt: int
    upto: int
    had: int

    @property
    def prefill(self) -> int:
        """Prompt tokens on their way to a first token. ``fast`` is not counted: nobody is to wait for it."""
        return 0 if self.lane == "fast" else self.upto - self.had

    @property
    def half_read(self) -> bool:
        """There is more of its prompt to send."""
        return self.upto < self.prompt

    @property
    def under_way(self) -> bool:
        return self.upto > self.had


class Flight:
    """All jobs at one back end. ``next_piece_at``: until then nothing more is sent to be read, but alone.
    ``next_careful_at``: the same of background work that is read with care, ``heeds_until``: as long as it is, though
    no person's job is there.
    """

    def __init__(self, jobs: Iterable[Carried] = ()) -> None:
        self.load = Load()
        self.next_piece_at = self.next_careful_at = self.heeds_until = float("-inf")
        self._jobs: dict[str, Carried] = {}
        for job in jobs:
            self.take(job)

    def __contains__(self, id: str) -> bool:
        return id in self._jobs

    def take(self, job: Carried) -> None:
        self._jobs[job.id] = job
        self.load.add(Need(job.lane, job.kv, job.prefill, job.long))

    def send(self, id: str, upto: int) -> None:
        """The next piece of a prompt goes there."""
        job = self._jobs[id]
        before, job.upto = job.prefill, upto
        self.load.prefill += job.prefill - before

    def read(self, id: str, upto: int) -> None:
        """So much of a prompt has been read there, of what was sent. Of a job that is no longer there, nothing."""
        job = self._jobs.get(id)
        if job is not None:
            before, job.had = job.prefill, max(job.had, min(upto, job.upto))
            self.load.prefill += job.prefill - before

    def remove(self, id: str) -> None:
        job = self._jobs.pop(id)
        self.load.remove(Need(job.lane, job.kv, long=job.long), prefill=job.prefill)

    def short(self) -> Load:
        """What jobs of the short lanes have."""
        return _sum(job for job in self._jobs.values() if job.lane in SHORT_LANES)

    def younger(self, after: float) -> Load:
        """What those have that came later than so."""
        return _sum(job for job in self._jobs.values() if job.arr_at > after)

    @property
    def has_people(self) -> bool:
        """Whether any of it is a person's."""
        return any(job.lane != "background" for job in self._jobs.values())

    @property
    def reads_people(self) -> bool:
        """Whether a prompt of a person's is being read; ``fast`` too."""
        return any(job.under_way for job in self._jobs.values() if job.lane != "background")

    def half_read(self) -> Iterator[Carried]:
        return (job for job in self._jobs.values() if job.half_read)

    def reads_before(self, lane: str) -> bool:
        """Whether a prompt is under way that is to be read before those of ``lane``: one of its own lane, or of a
        higher one."""
        place = LANES.index(lane)
        return any(job.under_way and LANES.index(job.lane) <= place for job in self.half_read())


def _sum(jobs: Iterable[Carried]) -> Load:
    load = Load()
    for job in jobs:
        load.add(Need(job.lane, job.kv, job.prefill, job.long))
    return load
