"""The scheduling policies compared in virtual time: which runs there are, and how one of them goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from policy.credit import SEGMENT_TOKENS
from policy.lane import choose_lane
from policy.segment import QUARTERS
from simulate.cost import Profile, profile_named
from simulate.doors import Direct, FixedWindow
from simulate.orders import make_engine
from simulate.study_door import Doublebuffer
from simulate.study_rows import Row, rows_of
from simulate.virtual import Door, Outcome, play
from simulate.workload import REFUSAL, WORKLOADS, Arrival, at_rate

POLICIES = ("direct", "fixed-window", "doublebuffer")
CAPACITY_CLIENTS = 256
OPEN_REQUESTS = 4_000
TRACE_REQUESTS = 1_500
"""What ``direct`` does at a load near 1 depends on how long it lasts: its queue grows all the time."""
CLOSED_REQUESTS = 1_000


def segment_tokens(profile: Profile) -> int:
    """Of a first piece of a long prompt: about 80 ms of an RTX 4090, and 40 of an H100."""
    return 1_024 if profile.name.startswith("h100") else SEGMENT_TOKENS


def block_tokens(profile: Profile) -> int:
    """Of the engine's prefix cache in the study: a least piece. An engine's own blocks are smaller; here they would
    cost time and change nothing.
    """
    return segment_tokens(profile) // QUARTERS


@dataclass(frozen=True, slots=True)
class Case:
    """A workload on an engine, at a load or with so many clients."""

    workload: str
    """The name of one, or of a trace."""
    profile: str
    load: float = 0.0
    clients: int = 0
    """A closed loop of so many; 0: open, at ``load``."""
    requests: int = 0
    """0: as many as usual."""
    slots: int | None = None
    num_ctx: int | None = None
    trace: tuple[Arrival, ...] = ()
    """Of a trace, all of it."""

    def engine_profile(self) -> Profile:
        """Raises ``ValueError`` on an unknown profile or a bad number."""
        return profile_named(self.profile, slots=self.slots, num_ctx=self.num_ctx)

    @property
    def count(self) -> int:
        if self.requests:
            return self.requests
        if self.clients:
            return CLOSED_REQUESTS
        return min(TRACE_REQUESTS, len(self.trace)) if self.trace else OPEN_REQUESTS


USUAL: tuple[Case, ...] = (
    *(Case("chat", "rtx4090-vllm", clients=clients) for clients in (1, 4, 8)),
    *(Case("mix", "rtx4090-vllm", load) for load in (0.7, 0.95)),
    *(Case("mix85k", "h100-vllm", load) for load in (0.7, 0.95)),
    *(Case("mix", "rtx4090-ollama", load, slots=4, num_ctx=8_192) for load in (0.5, 0.7, 0.9)),
    Case("refusal", "rtx4090-vllm", REFUSAL.load),
)
"""What is studied if nobody names anything."""
TRACE_LOADS = (0.7, 1.0, 1.3)


def lane_of(arrival: Arrival) -> str:
    """In the study a lane goes by the prompt's tokens alone."""
    return choose_lane(0, arrival.prompt_tokens)


def sizes(case: Case, seed: int) -> list[Arrival]:
    """The requests of a case. A trace begins for each seed where it ended for the one before, and goes round."""
    if not case.trace:
        return WORKLOADS[case.workload].draw(case.count, seed)
    span_s = case.trace[-1].at_s + case.trace[-1].at_s / len(case.trace)
    start = (seed - 1) * case.count
    wanted = [divmod(start + index, len(case.trace)) for index in range(case.count)]
    chosen = [replace(case.trace[row], at_s=case.trace[row].at_s + around * span_s) for around, row in wanted]
    return [replace(one, at_s=one.at_s - chosen[0].at_s) for one in chosen]


def capacity(profile: Profile, arrivals: Sequence[Arrival]) -> float:
    """Requests a second that ``direct`` completes in a closed loop that always has enough of them."""
    outcome = _play(profile, Direct(block_tokens(profile)), arrivals, clients=CAPACITY_CLIENTS)
    answered = sum(1 for ask in outcome.asks if not ask.refused)
    return answered / outcome.ended_at if outcome.ended_at else 0.0


def arrivals_of(case: Case, seed: int) -> list[Arrival]:
    """The requests with their times, at the load of the case. Raises ``ValueError`` if the engine can take none."""
    drawn = sizes(case, seed)
    if case.clients:
        return drawn
    rate = case.load * capacity(case.engine_profile(), drawn)
    if rate <= 0:
        raise ValueError(f"{case.profile} can take no request of {case.workload} at this load")
    return at_rate(drawn, rate) if case.trace else WORKLOADS[case.workload].poisson(case.count, rate, seed)


def door_of(policy: str, case: Case) -> Door:
    """A policy, new and idle."""
    profile = case.engine_profile()
    block = block_tokens(profile)
    if policy == "direct":
        return Direct(block)
    if policy == "fixed-window":
        return FixedWindow(block)
    refuse_wait_s = None if case.trace else WORKLOADS[case.workload].refuse_wait_s
    return Doublebuffer(
        profile, block_tokens=block, segment_tokens=segment_tokens(profile), refuse_wait_s=refuse_wait_s
    )


def run(case: Case, seed: int, policy: str, arrivals: Sequence[Arrival]) -> Outcome:
    """One run of one policy."""
    return _play(case.engine_profile(), door_of(policy, case), arrivals, clients=case.clients)


def _play(profile: Profile, door: Door, arrivals: Sequence[Arrival], *, clients: int) -> Outcome:
    engine = make_engine(profile, block_tokens=block_tokens(profile))
    return play(engine, door, arrivals, [lane_of(one) for one in arrivals], clients=clients)


def study(case: Case, seed: int) -> list[Row]:
    """All policies on the same requests."""
    arrivals = arrivals_of(case, seed)
    return [
        row
        for policy in POLICIES
        for row in rows_of(
            run(case, seed, policy, arrivals),
            workload=case.workload,
            profile=case.profile,
            load=case.load,
            clients=case.clients,
            seed=seed,
            policy=policy,
        )
    ]


def study_all(cases: Sequence[Case], seeds: int, *, processes: int = 1) -> Iterator[tuple[Case, int, list[Row]]]:
    """Every case on seeds 1, 2, …, in order, each as it is done. The result is the same for any number of processes."""
    tasks = [(case, seed) for case in cases for seed in range(1, seeds + 1)]
    if processes == 1 or len(tasks) == 1:
        for case, seed in tasks:
            yield case, seed, study(case, seed)
        return
    with ProcessPoolExecutor(min(processes, len(tasks))) as pool:
        rows = pool.map(study, [case for case, _ in tasks], [seed for _, seed in tasks])
        for (case, seed), of_it in zip(tasks, rows, strict=True):
            yield case, seed, of_it
