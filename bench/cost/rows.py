"""What is measured, and what one measurement amounts to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from bench.cost.load import Ask, Heard
from bench.cost.paths import Path

PEERS = ("nginx", "vllm-router", "litellm", "openai-rq")
SMALL = ("direct", *PEERS, "doublebuffer")
FLEET, EMBEDDED = "doublebuffer 2+2", "doublebuffer up"


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    title: str
    ask: Ask
    paths: tuple[str, ...]
    shows: tuple[str, ...]
    """The figures of it that the table shows."""


PACED = Ask(64, True, 64, first_us=50_000, every_us=10_000, for_s=1.5)
ROWS = (
    Row(
        "whole-1",
        "one client, whole answers",
        Ask(1, False, 16, for_s=1.0),
        (*SMALL, EMBEDDED),
        ("whole_p50_ms", "whole_p99_ms", "cpu_us_answer"),
    ),
    Row(
        "first-1",
        "one stream of 64 tokens at full speed",
        Ask(1, True, 64, for_s=1.0),
        (*SMALL, EMBEDDED),
        ("first_p50_ms", "first_p99_ms"),
    ),
    Row(
        "whole-32",
        "32 clients, whole answers",
        Ask(32, False, 16, for_s=1.5),
        (*SMALL, FLEET),
        ("answers_s", "cpu_us_answer"),
    ),
    Row(
        "speed-32",
        "32 streams of 64 tokens at full speed",
        Ask(32, True, 64, for_s=1.5),
        (*SMALL, FLEET),
        ("tokens_s", "cpu_us_token"),
    ),
    Row(
        "paced-64",
        "64 streams, first token at 50 ms, then every 10 ms; begun one after the other",
        replace(PACED, spread_s=0.68),
        SMALL,
        ("first_p50_ms", "first_p99_ms", "gap_p95_ms", "cpu_us_token"),
    ),
    Row(
        "burst-64",
        "the same, all begun at once",
        replace(PACED, for_s=0.0),
        ("direct", "nginx", "vllm-router", "doublebuffer"),
        ("first_p50_ms", "first_p99_ms", "gap_p95_ms"),
    ),
    Row(
        "burst-256",
        "256 of them, all begun at once",
        replace(PACED, clients=256),
        ("direct", "nginx", "vllm-router", "doublebuffer"),
        ("first_p50_ms", "first_p99_ms", "lost"),
    ),
    Row(
        "pace-8",
        "8 streams of 60 tokens a second",
        Ask(8, True, 120, first_us=50_000, every_us=16_667, for_s=0.0),
        ("direct", "doublebuffer", EMBEDDED),
        ("stream_tokens_s", "gap_p95_ms"),
    ),
)

Figures = dict[str, float]


async def measure(row: Row, path: Path) -> Figures:
    """One load on one path."""
    before_s = path.cpu_s()
    heard = await path.put(row.ask)
    return figures(row.ask, heard, path.cpu_s() - before_s)


def figures(ask: Ask, heard: Heard, cpu_s: float) -> Figures:
    """NaN: there is nothing to tell it from."""
    for_s = heard.ended_at - heard.began_at
    lasts_s = [whole - first for whole, first in zip(heard.whole_s, heard.first_s, strict=False)]
    return {
        "answers": heard.answers,
        "lost": heard.lost,
        "whole_p50_ms": 1e3 * quantile(heard.whole_s, 0.5),
        "whole_p99_ms": 1e3 * quantile(heard.whole_s, 0.99),
        # What comes on top of the engine's own time to its first token.
        "first_p50_ms": 1e3 * quantile(heard.first_s, 0.5) - ask.first_us / 1e3,
        "first_p99_ms": 1e3 * quantile(heard.first_s, 0.99) - ask.first_us / 1e3,
        "gap_p95_ms": 1e3 * quantile(heard.gaps_s, 0.95),
        "answers_s": heard.answers / for_s,
        "tokens_s": heard.tokens / for_s,
        "stream_tokens_s": (ask.tokens - 1) / quantile(lasts_s, 0.5) if ask.stream and lasts_s else math.nan,
        "cpu_us_answer": 1e6 * cpu_s / heard.answers if heard.answers else math.nan,
        "cpu_us_token": 1e6 * cpu_s / heard.tokens if heard.tokens else math.nan,
    }


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all are no greater than; NaN of none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def middle(rounds: Sequence[Figures]) -> Figures:
    """Each figure's median over the rounds; of what was lost, all."""
    out = {name: median(one[name] for one in rounds) for name in rounds[0]}
    out["lost"] = sum(one["lost"] for one in rounds)
    return out
