"""The pull script for all workers and the pure rule of the study, told the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from buffer.job import End, Lane
from buffer.lanes import Lanes
from buffer.records import GivenBack, Limits, NewJob, Piece
from buffer.store import open_store
from policy.credit import Credit, Need
from policy.flight import Flight
from policy.lineup import Lineup, Waiting
from policy.order import offset_s
from policy.pull import pull
from policy.segment import HEED_S

W = 60_000_000
"""Longest wait; all instants and spans here are µs, which the pure rule takes as well as seconds."""
START = 1_790_000_000_000_000
BACKENDS = {"b1": ("m", "n"), "b2": ("n",)}
DONE = End("done")


@dataclass
class Running:
    backend: str
    fence: int
    cost: int
    upto: int
    prompt: int


@dataclass
class Both:
    lanes: Lanes
    credits: dict[str, Credit]
    lineup: Lineup = field(default_factory=lambda: Lineup(W))
    flights: dict[str, Flight] = field(default_factory=lambda: {name: Flight() for name in BACKENDS})
    jobs: dict[str, Waiting] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    now: int = START

    async def submit(
        self, after: int, queue: tuple[str, Lane], user: str, need: tuple[int, int, int, bool, bool], cost: int
    ) -> None:
        """``need``: claim, tokens to read, tokens read before, whether it is long, whether it may go in pieces."""
        self.now += after
        (model, lane), (kv, prefill, known, long, splits) = queue, need
        name = f"j{len(self.jobs):04}"
        self.jobs[name] = self.lineup.submit(
            name,
            now_at=self.now,
            user=user,
            need=Need(lane, kv, prefill, long),
            prefill_s=prefill * 250,
            cost=cost,
            model=model,
            prompt=prefill + known if splits else None,
        )
        submitted = await self.lanes.submit(
            NewJob(
                id=name, model=model, lane=lane, user=user, inbox="g:1", body=b"{}", cost=cost, kv=kv, prefill=prefill,
                long=long, offset_us=int(offset_s(lane, prefill * 250, W)), max_wait_us=W, timeout_us=10**12,
                prompt=prefill + known if splits else prefill, splits=splits,
            )
        )  # fmt: skip
        assert submitted.status == "new"

    async def pull(self, after: int, backend: str, want: int) -> None:
        self.now += after
        credit, models = self.credits[backend], BACKENDS[backend]
        limits = Limits(
            slots=credit.slots,
            kv=credit.kv,
            prefill=credit.prefill,
            long=credit.long,
            reserved_slots=credit.reserved_slots,
            kv_reserve=credit.kv_reserve,
            segment=credit.segment,
            pause_us=int(credit.pause),
        )
        pulled = await self.lanes.pull("w", backend, models, want=want, limits=limits, lease_s=10**6)
        flight = self.flights[backend]
        picks = pull(
            self.lineup, want=want, credit=credit, flight=flight, now_at=self.now, models=models, heed=HEED_S * 10**6
        )
        assert [(job.id, job.upto) for job in pulled.jobs] == [(job.id, upto) for job, upto in picks.jobs]
        for job in pulled.jobs:
            self.running[job.id] = Running(backend, job.fence, job.cost, job.upto or job.prompt, job.prompt)
        expected = [Piece(id, self.running[id].fence, upto) for id, upto in picks.pieces]
        assert pulled.pieces == expected
        for piece in pulled.pieces:
            one = self.running[piece.id]
            one.upto = piece.upto or one.prompt
        look_in = 0 if picks.look_at is None else round(picks.look_at - self.now)
        assert pulled.look_in_us == look_in
        load = await self.lanes.load(backend)
        assert (load.jobs, load.kv, load.prefill, load.long) == (
            flight.load.jobs,
            flight.load.kv,
            flight.load.prefill,
            flight.load.long,
        )

    async def read(self, after: int, which: int) -> None:
        """A running job's engine has read what was sent."""
        self.now += after
        if self.running:
            id = sorted(self.running)[which % len(self.running)]
            one = self.running[id]
            await self.lanes.prefilled([Piece(id, one.fence, one.upto if one.upto < one.prompt else 0)])
            self.flights[one.backend].read(id, one.upto)

    async def settle(self, after: int, which: int) -> None:
        """A running job ends, or (an odd number) goes back to its place."""
        self.now += after
        if not self.running:
            return
        id = sorted(self.running)[which % len(self.running)]
        one = self.running.pop(id)
        self.flights[one.backend].remove(id)
        if which % 2:
            assert await self.lanes.release(id, one.fence, 1, GivenBack("drain")) == "waiting"
            self.lineup.put_back(self.jobs[id])
        else:
            real = one.cost * (which % 3)
            assert await self.lanes.settle(id, one.fence, 1, DONE, real_tokens=real) == "ok"
            self.lineup.correct(self.jobs[id], real - one.cost)


async def play(credits: dict[str, Credit], told: Sequence[tuple[object, ...]]) -> None:
    """Tells both, step by step; at the end each back end takes what it can."""
    store = await open_store(None)
    try:
        both = Both(Lanes(store), credits)
        both.lanes.clock = lambda: both.now
        await both.lanes.create_inbox("g:1")
        for kind, *arguments in told:
            await getattr(both, str(kind))(*arguments)
        for backend in sorted(BACKENDS):
            await both.pull(1, backend, 8)
    finally:
        await store.aclose()
