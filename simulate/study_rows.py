"""What a run of the study came to, as the rows of a table. Times in the model's own clock."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from policy.lane import LANES
from simulate.virtual import Ask, Outcome

ALL = "all"


@dataclass(frozen=True, slots=True)
class Row:
    """One lane of one run, or all of them. NaN where there is nothing to tell."""

    workload: str
    profile: str
    load: float
    """Share of what ``direct`` sustains; 0 in a closed loop."""
    clients: int
    """Of a closed loop; 0: requests come at their times."""
    seed: int
    policy: str
    lane: str
    count: int
    """Requests, refused ones among them."""
    ttft_p50_ms: float
    ttft_p95_ms: float
    ttft_p99_ms: float
    max_wait_s: float
    """The longest time from arrival to the first dispatch."""
    tokens_per_s: float
    """Of the answers of this lane, over the whole run."""
    mean_batch: float
    """Requests, or pieces of them, that went to the engine at one instant. This and the next two are the run's."""
    mean_in_flight: float
    """Requests and pieces on the way to the engine or inside it, while there were any."""
    preemptions: int
    """Times that the engine threw a running request out, to compute it again."""
    refused: int


def percentile(values: Iterable[float], share: float) -> float:
    """The least value that ``share`` of all do not exceed; NaN of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def rows_of(
    outcome: Outcome, *, workload: str, profile: str, load: float, clients: int, seed: int, policy: str
) -> list[Row]:
    """A row for each lane that had requests, after one for all."""

    def row(lane: str, asks: list[Ask]) -> Row:
        firsts = [ask.ttft_s * 1e3 for ask in asks if not math.isnan(ask.first_at)]
        tokens = sum(ask.answer_tokens for ask in asks)
        return Row(
            workload=workload,
            profile=profile,
            load=load,
            clients=clients,
            seed=seed,
            policy=policy,
            lane=lane,
            count=len(asks),
            ttft_p50_ms=percentile(firsts, 0.5),
            ttft_p95_ms=percentile(firsts, 0.95),
            ttft_p99_ms=percentile(firsts, 0.99),
            max_wait_s=max((ask.wait_s for ask in asks if not math.isnan(ask.sent_at)), default=math.nan),
            tokens_per_s=tokens / outcome.ended_at if outcome.ended_at else 0.0,
            mean_batch=outcome.mean_batch,
            mean_in_flight=outcome.mean_in_flight,
            preemptions=outcome.preemptions,
            refused=sum(ask.refused for ask in asks),
        )

    rows = [row(ALL, outcome.asks)]
    for lane in LANES:
        asks = [ask for ask in outcome.asks if ask.lane == lane]
        if asks:
            rows.append(row(lane, asks))
    return rows
