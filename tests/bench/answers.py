"""Answers that nobody gave, for the parts that only reckon."""

from __future__ import annotations

from collections.abc import Sequence

from bench.asking import Answer, Outcome
from bench.counters import Counters
from bench.plan import Plan
from bench.report import Report
from bench.rows import Run, Way
from simulate.cost import profile_named
from simulate.workload import Arrival


def answer(
    number: int,
    lane: str = "fast",
    *,
    sent_at: float = 0.0,
    first_s: float = 0.1,
    tokens: int = 11,
    token_s: float = 0.02,
    outcome: Outcome = "answered",
    gateway_lane: str = "",
    trouble: str = "",
) -> Answer:
    """Sent when it was due."""
    made = Answer(number, lane, sent_at, sent_at=sent_at, ended_at=sent_at + 0.01, outcome=outcome, trouble=trouble)
    made.gateway_lane = gateway_lane
    if outcome == "answered":
        made.first_at = sent_at + first_s
        made.last_at = made.ended_at = made.first_at + (tokens - 1) * token_s
        made.tokens = made.pieces = tokens
    return made


def run(way: Way, number: int, answers: Sequence[Answer], counters: Counters | None = None) -> Run:
    return Run(way, number, answers, counters or Counters(), {"load generator": 0.05, "engine": 0.2}, 1.5)


def report(
    runs: Sequence[Run], *, workload: str = "mix", simulated: str = "rtx4090-vllm", speed: float = 1.0
) -> Report:
    plan = Plan(
        workload=workload,
        drawn=(Arrival(0.0, 60, 128),),
        trace=(),
        seed=1,
        rounds=max(one.round for one in runs),
        speed=speed,
        profile=profile_named("rtx4090-vllm"),
        key="a key of mine",
        load=0.7,
    )
    return Report(plan, simulated, "simulated-qwen3:14b", runs, ["Load 1 is much."], rate=0.4)
