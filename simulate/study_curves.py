"""What the study's plots show: each policy over a range of loads, and its queue over time."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from simulate.study import POLICIES, Case, arrivals_of, run
from simulate.study_rows import Row, rows_of
from simulate.virtual import Outcome

LOADS = (0.3, 0.5, 0.7, 0.85, 0.95, 1.1)
QUEUE_LOAD = 0.95
REQUESTS = 1_000
"""Of each run of a plot, so that it is drawn in a minute."""
INSTANTS = 240


@dataclass(frozen=True, slots=True)
class Curves:
    """Of one workload on one engine."""

    case: Case
    rows: list[Row]
    """Of all loads and policies, seed 1."""
    span_s: float
    queues: dict[str, list[int]]
    """Policy → how many wait for their first token, at ``INSTANTS`` instants over ``span_s``, at ``QUEUE_LOAD``."""


def curves_of(cases: Sequence[Case], *, processes: int = 1) -> list[Curves]:
    """The curves of every open workload among ``cases``, each once."""
    kinds = {(case.workload, case.profile): case for case in cases if not case.clients}
    wanted = [replace(case, requests=min(case.count, REQUESTS)) for case in kinds.values()]
    tasks = [replace(case, load=load) for case in wanted for load in LOADS]
    if processes == 1:
        done = list(map(_at_load, tasks))
    else:
        with ProcessPoolExecutor(min(processes, max(1, len(tasks)))) as pool:
            done = list(pool.map(_at_load, tasks))
    curves: list[Curves] = []
    for index, case in enumerate(wanted):
        of_it = done[index * len(LOADS) : (index + 1) * len(LOADS)]
        span_s, queues = next(queue for _, queue in of_it if queue[1])
        curves.append(Curves(case, [row for rows, _ in of_it for row in rows], span_s, queues))
    return curves


def _at_load(case: Case) -> tuple[list[Row], tuple[float, dict[str, list[int]]]]:
    arrivals = arrivals_of(case, 1)
    outcomes = {policy: run(case, 1, policy, arrivals) for policy in POLICIES}
    rows = [
        row
        for policy, outcome in outcomes.items()
        for row in rows_of(
            outcome,
            workload=case.workload,
            profile=case.profile,
            load=case.load,
            clients=0,
            seed=1,
            policy=policy,
        )
    ]
    if case.load != QUEUE_LOAD:
        return rows, (0.0, {})
    span_s = max(outcome.ended_at for outcome in outcomes.values())
    return rows, (span_s, {policy: waiting(outcome, span_s) for policy, outcome in outcomes.items()})


def waiting(outcome: Outcome, span_s: float) -> list[int]:
    """How many wait for their first token at each of ``INSTANTS`` instants."""
    asks = [ask for ask in outcome.asks if not math.isnan(ask.first_at)]
    came, begun = sorted(ask.at for ask in asks), sorted(ask.first_at for ask in asks)
    instants = [span_s * index / (INSTANTS - 1) for index in range(INSTANTS)]
    return [bisect_right(came, at) - bisect_right(begun, at) for at in instants]
