"""The properties that one look at the store can check: P4 to P7, and that a pull leaves nothing which it could take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil

from buffer.keys import FIXED, SELF_EMPTYING, Keys
from buffer.records import Limits
from tests.properties.ledger import Ledger, Violation
from tests.properties.server import Server
from tests.properties.state import Record, State

LOOKED_AT = 16


def check_state(state: State, ledger: Ledger) -> None:
    """P5: orders, leases, load and entries hold exactly the jobs whose state says so. P3: no fence goes back."""
    jobs = state.jobs.values()
    for id in ledger.top.keys() - state.jobs.keys():
        del ledger.top[id]
    for job in jobs:
        ledger.fence(job.id, job.fence)
        if job.st == "done":
            ledger.ended.add(job.id)
    waiting = {job.id for job in jobs if job.st == "waiting"}
    running = {job.id for job in jobs if job.st == "running"}
    held = {job.id for job in jobs if job.st == "held"}
    for (model, lane), ids in state.wait.items():
        _same(f"wait:{model}:{lane}", ids, {one for one in waiting if _queue(state, one) == (model, lane)})
        _same(f"turn:{model}:{lane}", state.turn[model, lane], ids)
    for model, ids in state.due.items():
        people = {one for one in waiting if state.jobs[one].model == model and state.jobs[one].lane != "background"}
        _same(f"due:{model}", ids, people)
    _same("lease", state.lease, running | held)
    for backend, load in state.load.items():
        _same(f"load:{backend}", set(load), {one for one in running if state.jobs[one].backend == backend})
        for one, share in load.items():
            if share != state.jobs[one].takes:
                raise Violation(f"P5: load:{backend} has {share} for {one}, which takes {state.jobs[one].takes}")
    _same("jobs:*", set(state.entries.values()), waiting | running | held)
    for job in jobs:
        if job.st != "done" and state.entries.get((job.lane, job.entry)) != job.id:
            raise Violation(f"P5: the entry {job.entry} of {job.id} ({job.st}) is not in jobs:{job.lane}")


def _queue(state: State, job_id: str) -> tuple[str, str]:
    return state.jobs[job_id].model, state.jobs[job_id].lane


def _same(name: str, found: set[str], wanted: set[str]) -> None:
    if found != wanted:
        raise Violation(f"P5: {name} has {sorted(found - wanted)} too many, lacks {sorted(wanted - found)}")


def check_quiet(state: State) -> None:
    """P5, once all is over: nothing is left."""
    left = {
        "lease": state.lease,
        "load": set(chain.from_iterable(state.load.values())),
        "wait": set(chain.from_iterable(state.wait.values())),
        "turn": set(chain.from_iterable(state.turn.values())),
        "due": set(chain.from_iterable(state.due.values())),
        "jobs": set(state.entries.values()),
        "open": {job.id for job in state.jobs.values() if job.st != "done"},
    }
    if any(left.values()):
        raise Violation(f"P5: left over: { {name: sorted(ids) for name, ids in left.items() if ids} }")


def check_lifetimes(server: Server, keys: Keys) -> None:
    """P6."""
    names = server.names()
    for key, left_s in zip(names, server.ask([("TTL", name) for name in names]), strict=True):
        name = key.removeprefix(keys.base)
        if left_s == -1 and name not in FIXED and not name.startswith(SELF_EMPTYING):
            raise Violation(f"P6: {name} has no lifetime")


class Credit:
    """What a back end carries, and whether one more fits: the rule again, apart from the script."""

    def __init__(self, limits: Limits, shares: Sequence[tuple[int, int, int]]) -> None:
        self.limits = limits
        self.jobs = len(shares)
        self.kv, self.prefill, self.long = (sum(share[i] for share in shares) for i in range(3))

    def fits(self, job: Record) -> bool:
        limits, short = self.limits, job.lane in ("fast", "thinking")
        places = limits.slots if short else max(1, limits.slots - limits.reserved_slots)
        kv = limits.kv - (0 if short else limits.kv_reserve)
        prefill = limits.prefill if job.lane != "fast" else 0
        return (
            self.jobs < places
            and not (limits.kv and self.kv and job.kv and self.kv + job.kv > kv)
            and not (prefill and self.prefill and job.prefill and self.prefill + job.prefill > prefill)
            and not (limits.long and job.long and self.long + job.long > limits.long)
        )

    def add(self, job: Record) -> None:
        self.jobs += 1
        self.kv, self.prefill, self.long = self.kv + job.kv, self.prefill + job.prefill, self.long + job.long


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


def check_pull(state: State, asked: Asked, granted: Sequence[str]) -> None:
    """P4 and P7 for a pull that found ``state``, and that it left nothing which it could have taken."""
    backend, want = asked.backend, asked.want
    credit = Credit(asked.limits, list(state.load.get(backend, {}).values()))
    shares = Shares(state, backend, asked.limits.slots)
    waiting = {
        job.id: job
        for job in state.jobs.values()
        if job.st == "waiting" and job.model in asked.models and job.id in state.bodies and job.deadline >= asked.now_us
        and (job.det or job.inbox in state.inboxes)
    }  # fmt: skip
    # Those that failed here are left to others for a while.
    left = {
        id: waiting.pop(id)
        for id, job in list(waiting.items())
        if job.left == backend and asked.now_us < job.left_until
    }
    passed_over = False
    for grant in granted:
        job = waiting.pop(grant, None)
        if job is None:
            raise Violation(f"P4: {grant} was granted by {backend}, but it could not be")
        if not credit.fits(job):
            raise Violation(f"P4: {grant} was granted by {backend} above its limits")
        for other in waiting.values():
            if shares.over(other):
                # Whoever else waits passes it, however old it is.
                continue
            # Also if the other did not fit: it was looked at first, and nothing that came after its due may pass it.
            if other.due and job.arr > other.due:
                raise Violation(f"P7: {job.id} (arrived {job.arr}) was granted before {other.id} (due {other.due})")
            if shares.over(job) and other.owner != job.owner and other.lane != "background" and credit.fits(other):
                raise Violation(f"P4: {job.id} was granted to {job.owner} above its share, and {other.id} fits")
        passed_over = passed_over or shares.over(job)
        credit.add(job)
        shares.add(job)
    if len(granted) >= want or len(waiting) > LOOKED_AT:
        return
    barrier = min((job.due for job in waiting.values() if job.due and not credit.fits(job)), default=None)
    # While one waited that was passed over, and was granted what nobody else wanted, no background job was looked at.
    people = passed_over or any(job.lane != "background" for job in (waiting | left).values())
    owners = {job.owner for job in waiting.values()}
    for job in waiting.values():
        if (people and job.lane == "background") or (shares.over(job) and owners != {job.owner}):
            continue
        if credit.fits(job) and (barrier is None or job.arr <= barrier):
            raise Violation(f"P9: {job} fits {backend}, and {asked} left it after {granted}; others: {waiting}")
