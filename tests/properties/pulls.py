"""What a pull may take and must: P4 and P7, and that it leaves nothing which it could take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from buffer.records import Limits
from policy.placing import EMPTIER_S
from policy.segment import CARE_PAUSE
from tests.properties.ledger import Violation
from tests.properties.state import Record, State

LOOKED_AT = 16
LOOKED_AT_LANE = 4
EMPTIER_US = round(EMPTIER_S * 1_000_000)
"""A job that has waited for less is left to a back end that is emptier."""
CLOCK_BACK_S = 2.0
"""So far the store's clock may go back, from what was noted by it."""


class Credit:
    """What a back end carries, and whether one more fits: the rule again, apart from the script."""

    def __init__(self, asked: Asked, state: State) -> None:
        self.limits = asked.limits
        shares = state.load.get(asked.backend, {}).values()
        self.jobs = len(shares)
        self.kv = sum(share.kv for share in shares)
        self.prefill = sum(share.prefill for share in shares)
        self.long = sum(share.long for share in shares)
        self.half_read = any(share.upto < share.prompt for share in shares)
        self.reads_people = any(share.lane != "background" and share.upto > share.had for share in shares)
        self.careful_s = (state.careful_at[asked.backend] - asked.now_us) / 1_000_000
        self.reserved = 0 if self._waited(asked, state) else asked.limits.reserved_slots

    @staticmethod
    def _waited(asked: Asked, state: State) -> bool:
        """Whether no place is kept for short jobs any more."""
        due = [
            job for job in state.jobs.values() if job.st == "waiting" and job.model in asked.models and job.due > 0
        ]  # fmt: skip
        oldest = min(due, key=lambda job: (job.due, job.id), default=None)
        if oldest is None or asked.limits.kv:
            return False
        return asked.now_us - oldest.arr > (oldest.due - oldest.arr) / 4

    def fits(self, job: Record) -> bool:
        """Prefill aside."""
        limits, short = self.limits, job.lane in ("fast", "thinking")
        places = limits.slots if short else max(1, limits.slots - self.reserved)
        kv = limits.kv - (0 if short else limits.kv_reserve)
        return (
            self.jobs < places
            and not (limits.kv and self.kv and job.kv and self.kv + job.kv > kv)
            and not (limits.long and job.long and self.long + job.long > limits.long)
        )

    def may_be_read(self, job: Record) -> bool:
        """Whether its prompt may be read now. Where prompts are read in pieces: whether that is sure."""
        limits = self.limits
        if self.gives_way(job) or (limits.segment and job.lane == "background" and self._just_sent()):
            return False
        if job.lane == "fast" or not job.prefill:
            return True
        if limits.segment:
            return not self.prefill and not self.half_read
        return not (limits.prefill and self.prefill and self.prefill + job.prefill > limits.prefill)

    def gives_way(self, job: Record) -> bool:
        """Whether it is background work that is not to be read while a person's prompt is."""
        return self.limits.segment > 0 and job.lane == "background" and self.reads_people

    def _just_sent(self) -> bool:
        """Whether the last of what background work sends to be read, while people are about, went half a pause ago at
        most, by a clock that may have gone back since."""
        return 0 < self.careful_s <= self.limits.pause_us / 1_000_000 * CARE_PAUSE + CLOCK_BACK_S

    def add(self, job: Record) -> None:
        self.jobs += 1
        self.kv, self.long = self.kv + job.kv, self.long + job.long
        self.prefill += 0 if job.lane == "fast" else job.prefill
        self.reads_people = self.reads_people or (job.lane != "background" and job.prefill > 0)


@dataclass(frozen=True)
class Asked:
    """A pull, and what its worker may have."""

    backend: str
    models: Sequence[str]
    limits: Limits
    want: int
    now_us: int


class Shares:
    """How many places each owner has at a back end."""

    def __init__(self, state: State, backend: str, slots: int) -> None:
        self._slots = slots
        self._places = Counter(state.jobs[one].owner for one in state.load.get(backend, {}) if one in state.jobs)

    def over(self, job: Record) -> bool:
        """Whether its owner has as many as it may have while others wait."""
        return job.share > 0 and self._places[job.owner] >= ceil(job.share * self._slots / 1000)

    def add(self, job: Record) -> None:
        self._places[job.owner] += 1


class Waiting:
    """Who could be granted, and is not yet."""

    def __init__(self, state: State, asked: Asked) -> None:
        self._asked = asked
        self.jobs = {
            job.id: job
            for job in state.jobs.values()
            if job.st == "waiting"
            and job.model in asked.models
            and job.id in state.bodies
            and job.deadline >= asked.now_us
            and (job.det or job.inbox in state.inboxes)
        }
        # Those that failed here are left to others for a while.
        self.left = {
            id: self.jobs.pop(id)
            for id, job in list(self.jobs.items())
            if job.left == asked.backend and asked.now_us < job.left_until
        }
        self.credit = Credit(asked, state)
        self.shares = Shares(state, asked.backend, asked.limits.slots)

    def out(self) -> list[Record]:
        """Those that do not fit: whoever came after their due has to leave their room alone."""
        return [job for job in self.jobs.values() if job.due and not self.credit.fits(job)]

    def goes(self, job: Record) -> bool:
        """Whether it is sure that it can be granted now, and is looked at before all that came after its due."""
        credit, out = self.credit, self.out()
        if not credit.fits(job) or not credit.may_be_read(job) or any(job.arr > one.due for one in out):
            return False
        queue = [one for one in self.jobs.values() if (one.model, one.lane) == (job.model, job.lane)]
        return len(queue) <= LOOKED_AT_LANE and self._asked.now_us - job.arr >= EMPTIER_US

    def looked_at_when_due(self, job: Record) -> bool:
        """Of those that have waited for too long, and are not granted, only so many are looked at."""
        passed = [one for one in self.jobs.values() if one.due and one.due <= job.due and not self._may_go(one)]
        return len(passed) + len(self.left) < LOOKED_AT_LANE

    def _may_go(self, job: Record) -> bool:
        return self.credit.fits(job) and self.credit.may_be_read(job) and not self.shares.over(job)


def check_pull(state: State, asked: Asked, granted: Sequence[str]) -> None:
    """P4 and P7 for a pull that found ``state``, and that it left nothing which it could have taken."""
    backend, limits = asked.backend, asked.limits
    waiting = Waiting(state, asked)
    credit, shares = waiting.credit, waiting.shares
    passed_over = False
    for grant in granted:
        job = waiting.jobs.pop(grant, None)
        if job is None:
            raise Violation(f"P4: {grant} was granted by {backend}, but it could not be")
        if not credit.fits(job) or not (limits.segment or credit.may_be_read(job)):
            raise Violation(f"P4: {grant} was granted by {backend} above its limits")
        if credit.gives_way(job):
            raise Violation(f"P4: {grant} was granted by {backend} while a person's prompt is read there")
        _check_passed(waiting, job)
        passed_over = passed_over or shares.over(job)
        credit.add(job)
        shares.add(job)
    if len(granted) < asked.want and len(waiting.jobs) <= LOOKED_AT:
        # While one waited that was passed over, and was granted what nobody else wanted, no background job was
        # looked at.
        people = passed_over or any(job.lane != "background" for job in _all(waiting))
        _check_left(waiting, asked, granted, people=people)


def _all(waiting: Waiting) -> Iterable[Record]:
    return (waiting.jobs | waiting.left).values()


def _check_passed(waiting: Waiting, job: Record) -> None:
    """P7: whoever has waited for the longest wait, and can go, goes before whoever came later than that."""
    shares = waiting.shares
    for other in waiting.jobs.values():
        if shares.over(other) or not waiting.goes(other):
            # Whoever else waits passes the one who has more than his share, however old it is.
            continue
        if other.due and job.arr > other.due and waiting.looked_at_when_due(other):
            raise Violation(f"P7: {job.id} (arrived {job.arr}) was granted before {other.id} (due {other.due})")
        if shares.over(job) and other.owner != job.owner and other.lane != "background":
            raise Violation(f"P4: {job.id} was granted to {job.owner} above its share, and {other.id} fits")


def _check_left(waiting: Waiting, asked: Asked, granted: Sequence[str], *, people: bool) -> None:
    owners = {job.owner for job in waiting.jobs.values()}
    for job in waiting.jobs.values():
        if (people and job.lane == "background") or (waiting.shares.over(job) and owners != {job.owner}):
            continue
        if waiting.goes(job):
            raise Violation(f"P9: {job} fits {asked.backend}, and {asked} left it after {granted}: {waiting.jobs}")
