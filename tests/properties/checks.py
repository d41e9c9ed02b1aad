"""The properties that one look at the store can check: P3, P5 and P6. Those of a pull: ``pulls``."""

from __future__ import annotations

from itertools import chain

from buffer.keys import FIXED, SELF_EMPTYING, Keys
from tests.properties.ledger import Ledger, Violation
from tests.properties.server import Server
from tests.properties.state import State


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
