"""One rule, twice: the pull script for all workers, ``Lineup`` for the study. The same events, the same picks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.job import LANES, End, Lane
from buffer.lanes import Lanes
from buffer.records import GivenBack, Granted, Limits, NewJob
from buffer.store import open_store
from policy.credit import Credit, Load, Need
from policy.lineup import Lineup, Waiting
from policy.order import offset_s

W = 60_000_000
"""Longest wait; all instants and spans here are µs, which the pure rule takes as well as seconds."""
START = 1_790_000_000_000_000
BACKENDS = {"b1": ("m", "n"), "b2": ("n",)}


@dataclass
class Both:
    """The script's lanes and the pure line-up, told the same."""

    lanes: Lanes
    credits: dict[str, Credit]
    lineup: Lineup = field(default_factory=lambda: Lineup(W))
    loads: dict[str, Load] = field(default_factory=lambda: {name: Load() for name in BACKENDS})
    jobs: dict[str, Waiting] = field(default_factory=dict)
    running: list[tuple[str, Granted]] = field(default_factory=list)
    now: int = START

    async def submit(
        self, after: int, queue: tuple[str, Lane], user: str, need: tuple[int, int, bool], cost: int
    ) -> None:
        self.now += after
        (model, lane), (kv, prefill, long) = queue, need
        name = f"j{len(self.jobs)}"
        wants = Need(lane, kv, prefill, long)
        self.jobs[name] = self.lineup.submit(
            name, now_at=self.now, user=user, need=wants, prefill_s=prefill * 250, cost=cost, model=model
        )
        submitted = await self.lanes.submit(
            NewJob(
                id=name, model=model, lane=lane, user=user, inbox="g:1", body=b"{}", cost=cost, kv=kv, prefill=prefill,
                long=long, offset_us=int(offset_s(lane, prefill * 250, W)), max_wait_us=W, timeout_us=10**12,
            )
        )  # fmt: skip
        assert submitted.status == "new"

    async def pull(self, after: int, backend: str, want: int) -> None:
        self.now += after
        credit, models = self.credits[backend], BACKENDS[backend]
        pulled = await self.lanes.pull("w", backend, models, want=want, limits=Limits(*credit), lease_s=10**6)
        picks = self.lineup.pull(want=want, credit=credit, load=self.loads[backend], models=models)
        assert [job.id for job in pulled.jobs] == [job.id for job in picks], self._about(pulled.jobs, picks)
        self.running += [(backend, job) for job in pulled.jobs]

    def _about(self, pulled: Sequence[Granted], picks: Sequence[Waiting]) -> str:
        waiting = [*picks, *(job for job in self.lineup if job.id not in {pick.id for pick in picks})]
        return f"The script took {[job.id for job in pulled]}, the line-up {[job.id for job in picks]} of {waiting}"

    async def settle(self, after: int, which: int) -> None:
        """A running job ends, or (an odd number) goes back to its place."""
        self.now += after
        if not self.running:
            return
        backend, job = self.running.pop(which % len(self.running))
        self.loads[backend].remove(self.jobs[job.id].need, prefill=job.prefill)
        if which % 2:
            assert await self.lanes.release(job.id, job.fence, 1, GivenBack("segment")) == "waiting"
            self.lineup.put_back(self.jobs[job.id])
        else:
            real = job.cost * (which % 3)
            assert await self.lanes.settle(job.id, job.fence, 1, DONE, real_tokens=real) == "ok"
            self.lineup.correct(self.jobs[job.id], real - job.cost)


def events(needs: st.SearchStrategy[tuple[int, int, bool]]) -> st.SearchStrategy[list[tuple[object, ...]]]:
    after = st.integers(1, W // 4)
    queue = st.tuples(st.sampled_from("mn"), st.sampled_from(LANES))
    submit = st.tuples(st.just("submit"), after, queue, st.sampled_from("abc"), needs, st.integers(1, 50))
    pull = st.tuples(st.just("pull"), after, st.sampled_from(sorted(BACKENDS)), st.integers(1, 4))
    settle = st.tuples(st.just("settle"), after, st.integers(0, 11))
    return st.lists(st.one_of(submit, submit, submit, pull, settle), min_size=4, max_size=40)


async def play(credits: dict[str, Credit], told: Sequence[tuple[object, ...]]) -> None:
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


DONE = End("done")
ROOM = {name: Credit(slots=1000) for name in BACKENDS}
NOTHING = st.just((0, 0, False))
NEEDS = st.tuples(st.integers(0, 80), st.integers(0, 40), st.booleans())
CREDIT = st.builds(
    Credit,
    slots=st.integers(1, 6),
    kv=st.sampled_from((0, 60, 120)),
    prefill=st.sampled_from((0, 30)),
    long=st.sampled_from((0, 1)),
    reserved_slots=st.sampled_from((0, 1)),
    kv_reserve=st.sampled_from((0, 10)),
)


@settings(max_examples=30, deadline=None)
@given(events(NOTHING))
def test_the_same_order_where_all_fits(told: list[tuple[object, ...]]) -> None:
    asyncio.run(play(ROOM, told))


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(BACKENDS, CREDIT)), events(NEEDS))
def test_the_same_picks_where_credit_is_short(credits: dict[str, Credit], told: list[tuple[object, ...]]) -> None:
    asyncio.run(play(credits, told))
