"""One random installation over a store: its clock, its faults, and the one way that its actors reach the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from buffer.access import Store, StoreUnavailable
from buffer.job import End
from buffer.keys import CTL_S, DONE_JOB_S, DONE_REPLY_S, INBOX_S
from buffer.lanes import Lanes
from buffer.records import Held, Limits, NewJob, Pulled, Renewed, Submitted, Watched
from tests.properties import checks
from tests.properties.ledger import Client, Ledger, Violation
from tests.properties.schedule import Actor, Schedule
from tests.properties.state import State, ask, dump, look

T = TypeVar("T")
START_US = 1_790_000_000_000_000
SECOND = 1_000_000
LOOK_FOR_LIFETIMES = 40


@dataclass(frozen=True)
class Plan:
    """What a seed decides ahead."""

    models: tuple[str, ...]
    backends: dict[str, tuple[str, ...]]
    limits: dict[str, Limits]
    faulty: bool
    jobs: int
    max_wait_s: float
    lease_s: float = 4.0
    hold_s: float = 5.0


def plan(rng: Random, *, faulty: bool = True, jobs: int) -> Plan:
    models = ("small", "large", "odd")
    backends: dict[str, tuple[str, ...]] = {"b1": ("small", "large"), "b2": ("large", "odd"), "b3": models}
    if rng.random() < 0.3:
        backends = {"b1": models}
    limits = {name: _limits(rng) for name in backends}
    return Plan(models, backends, limits, faulty, jobs, max_wait_s=rng.choice((1.0, 3.0, 8.0, 30.0)))


def _limits(rng: Random) -> Limits:
    slots = rng.choice((1, 1, 2, 2, 3, 5))
    return Limits(
        slots=slots,
        kv=rng.choice((0, 60, 120)),
        prefill=rng.choice((0, 30, 50)),
        long=rng.choice((0, 1, 2)),
        reserved_slots=rng.choice((0, 1)) if slots >= 4 else 0,
        kv_reserve=rng.choice((0, 5)),
    )


class World:
    def __init__(self, store: Store, rng: Random, plan: Plan) -> None:
        self.rng, self.plan = rng, plan
        self.schedule = Schedule(START_US)
        self.lanes = Lanes(store)
        self.lanes.clock = lambda: self.store_us
        self.ledger = Ledger()
        self.back_us = 0
        self.faults = plan.faulty
        self.away_until_us = 0
        """Until when the store cannot be reached."""
        self.calls = 0
        self.writes = 0
        """Counts what may have changed the store: who looks for news need not ask between."""
        self._ends: dict[tuple[str, ...], int] = {}
        """Kind and name of a key with a short life → when it ends. Redis' own clock is not ours."""

    @property
    def store_us(self) -> int:
        """The store's clock, which may go back."""
        return self.schedule.now_us - self.back_us

    async def sleep(self, actor: Actor, least_s: float, most_s: float | None = None) -> None:
        await self.schedule.sleep(actor, self.rng.uniform(least_s, most_s if most_s is not None else least_s))

    async def call(
        self, actor: Actor, run: Callable[[], Awaitable[T]], *, twice: bool = True, under: tuple[str, int] | None = None
    ) -> T:
        """One exchange with the store. With faults it may be lost on its way there or back, or (``twice``) run again.

        ``under``: job and fence; if it was taken, it was under the job's one fence. Raises ``StoreUnavailable``.
        """
        await self.sleep(actor, 0.0005, 0.01)
        chance = self.rng.random() if self.faults else 1.0
        if chance < 0.01 or self.schedule.now_us < self.away_until_us:
            await self.sleep(actor, 0.1, 2.0)
            raise StoreUnavailable("lost on the way there")
        await self._expire()
        if under is not None:
            await self._see(under[0])
        result = await run()
        self.writes += 1
        self._taken(result, under)
        if twice and self.rng.random() < 0.06:
            result = await self._again(run, result)
        await self._look()
        if chance < 0.03:
            await self.sleep(actor, 0.1, 3.0)
            raise StoreUnavailable("lost on the way back")
        await self.sleep(actor, 0.0005, 0.01)
        return result

    async def _again(self, run: Callable[[], Awaitable[T]], first: T) -> T:
        """P10."""
        before = await dump(self.lanes)
        second = await run()
        after = await dump(self.lanes)
        changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
        if changed:
            raise Violation(f"P10: run again (result {first!r}, then {second!r}), a script changed {changed}")
        return self.rng.choice((first, second))

    async def _see(self, job_id: str) -> None:
        (fence,) = await ask(self.lanes, [("HGET", self.lanes.keys.job(job_id), "fence")])
        if fence is not None:
            self.ledger.fence(job_id, int(fence))

    def _taken(self, result: Any, under: tuple[str, int] | None) -> None:
        """P3."""
        if under is not None and result not in ("lost", "orphan", "gone", "done"):
            self.ledger.accepted(*under, what=f"something ({result!r})")

    async def _look(self) -> None:
        self.calls += 1
        state = await self.look()
        checks.check_state(state, self.ledger)
        for job in state.jobs.values():
            if job.st == "done" and ("job", job.id) not in self._ends:
                await self._ends_after("job", job.id, DONE_JOB_S)
                await self._ends_after("reply", job.id, DONE_JOB_S if job.det else DONE_REPLY_S)
        if self.calls % LOOK_FOR_LIFETIMES == 0:
            await checks.check_lifetimes(self.lanes)

    async def look(self, *, closely: bool = False) -> State:
        """Of the jobs that were not seen to be done."""
        ids = [one for one in self.ledger.clients if ("job", one) not in self._ends]
        return await look(self.lanes, ids, self.plan.models, list(self.plan.backends), closely=closely)

    async def _expire(self) -> None:
        now = self.schedule.now_us
        for name in [name for name, at in self._ends.items() if at < now]:
            kind, key = name
            self.writes += 1
            await ask(self.lanes, [("DEL", getattr(self.lanes.keys, kind)(key))])
            if kind == "job":
                self._ends[name] = now + 10**12
            else:
                del self._ends[name]

    async def _lives(self, kind: str, name: str) -> None:
        """An inbox or a ctl stream was made, or its life begun anew."""
        await self._ends_after(kind, name, INBOX_S if kind == "inbox" else CTL_S)

    async def _ends_after(self, kind: str, name: str, seconds: int) -> None:
        """A key's lifetime in virtual time. In real time it is to be there as long as the test runs."""
        self._ends[kind, name] = self.schedule.now_us + seconds * SECOND
        await ask(self.lanes, [("EXPIRE", getattr(self.lanes.keys, kind)(name), 3600)])

    async def create_inbox(self, name: str) -> bool:
        new = await self.lanes.create_inbox(name)
        await self._lives("inbox", name)
        return new

    async def watch(self, inbox: str, ids: Sequence[str]) -> Watched:
        watched = await self.lanes.watch(inbox, ids)
        if watched.inbox_there:
            await self._lives("inbox", inbox)
        return watched

    async def renew(self, worker: str, jobs: Sequence[Held]) -> list[Renewed]:
        """``Lanes.renew``. P3: what is taken is under the job's one fence."""
        for job in jobs:
            await self._see(job.id)
        renewed = await self.lanes.renew(worker, jobs, self.plan.lease_s)
        await self._lives("ctl", worker)
        for job, one in zip(jobs, renewed, strict=True):
            if one.status in ("ok", "cancel"):
                self.ledger.accepted(job.id, job.fence, "a renew")
        return renewed

    async def submit(self, job: NewJob, *, limit: int = 0) -> Submitted:
        """``Lanes.submit``. The job must be among the ledger's clients."""
        submitted = await self.lanes.submit(job, limit=limit)
        if submitted.status == "new":
            self.ledger.top[job.id] = 0
            self._ends.pop(("job", job.id), None)
            self._ends.pop(("reply", job.id), None)
        return submitted

    async def pull(self, worker: str, backend: str, models: Sequence[str], want: int) -> Pulled:
        """``Lanes.pull``, checked against what it found."""
        found = await self.look(closely=True)
        limits = self.plan.limits[backend]
        pulled = await self.lanes.pull(worker, backend, models, want=want, limits=limits, lease_s=self.plan.lease_s)
        checks.check_pull(found, checks.Asked(backend, models, limits, want, self.store_us), pulled.jobs)
        return pulled

    def deliver(self, client: Client, piece: str) -> None:
        if not client.left:
            self.ledger.deliver(client.job.id, piece)

    def finish(self, client: Client, kind: str) -> None:
        if not client.left:
            self.ledger.finish(client.job.id, kind)


CANCELLED = End("cancelled")
