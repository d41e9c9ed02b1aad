"""What the runs came to, by way and lane. Times in the engine's own clock, unless their names say otherwise. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from bench.asking import Answer
from bench.counters import Counters
from policy.lane import LANES
from simulate.study_rows import ALL, percentile

Way = Literal["direct", "gateway"]
WAYS: tuple[Way, ...] = ("direct", "gateway")


@dataclass(frozen=True, slots=True)
class Run:
    """All requests once, one way."""

    way: Way
    round: int
    """From 1."""
    answers: Sequence[Answer]
    counters: Counters
    """What grew during it."""
    cores: Mapping[str, float]
    """Process → share of a core."""
    load_average: float | None
    """Of the machine over the last minute, when it had ended."""

    @property
    def span_s(self) -> float:
        """Wall seconds from its start to the end of its last answer."""
        return max((answer.ended_at for answer in self.answers), default=0.0)

    @property
    def busy_s(self) -> float:
        """Wall seconds in which at least one request was under way."""
        total, until = 0.0, -math.inf
        for answer in sorted(self.answers, key=lambda one: one.sent_at):
            total += max(0.0, answer.ended_at - max(answer.sent_at, until))
            until = max(until, answer.ended_at)
        return total


@dataclass(frozen=True, slots=True)
class Row:
    """One lane of one way, in one round or in all of them. NaN where there is nothing to tell."""

    way: Way
    round: int
    """0: all rounds together."""
    lane: str
    count: int
    """Requests sent; the next three add up to it."""
    answered: int
    refused: int
    failed: int
    first_p50_ms: float
    """From when a request was to be sent to the first piece of its answer."""
    first_p95_ms: float
    first_p99_ms: float
    token_p50_ms: float
    """Of the answers' mean times from one token to the next."""
    token_p95_ms: float
    tokens_per_s: float
    """Of the answers of this lane, over the whole run."""
    in_flight: float
    """Requests at the engine while there were any on the way at all: sent direct, from sending to the end of the
    answer; through the gateway, without the time that they waited in it, as it counts that itself."""
    batch: float
    """Jobs that a worker sent together. NaN for direct, and for a single lane: workers count over all of them."""
    preempted: float
    """Times that the engine threw a request out, to compute it again. NaN for a single lane."""


def tokens_of(answer: Answer) -> int:
    """As the engine counted them; pieces where it did not tell."""
    return answer.tokens or answer.pieces


def row_of(runs: Sequence[Run], lane: str, *, speed: float, round: int = 0) -> Row:
    """Of runs of one way taken together. ``speed``: seconds of the engine's clock in one of the wall's."""
    way = runs[0].way
    answers = [answer for run in runs for answer in run.answers if lane in (ALL, answer.lane)]
    done = [answer for answer in answers if answer.outcome == "answered"]
    firsts = [answer.first_token_s * 1e3 * speed for answer in done if not math.isnan(answer.first_at)]
    paces = [answer.token_s * 1e3 * speed for answer in done if not math.isnan(answer.token_s)]
    span_s = sum(run.span_s for run in runs) * speed
    whole = lane == ALL
    return Row(
        way=way,
        round=round,
        lane=lane,
        count=len(answers),
        answered=len(done),
        refused=sum(answer.outcome == "refused" for answer in answers),
        failed=sum(answer.outcome == "failed" for answer in answers),
        first_p50_ms=percentile(firsts, 0.5),
        first_p95_ms=percentile(firsts, 0.95),
        first_p99_ms=percentile(firsts, 0.99),
        token_p50_ms=percentile(paces, 0.5),
        token_p95_ms=percentile(paces, 0.95),
        tokens_per_s=sum(map(tokens_of, done)) / span_s if span_s else 0.0,
        in_flight=_in_flight(runs, lane),
        batch=_share(runs, "in_batches", "batches") if whole and way == "gateway" else math.nan,
        preempted=_sum(runs, "preemptions") if whole else math.nan,
    )


def _in_flight(runs: Sequence[Run], lane: str) -> float:
    """By the lane that the gateway chose, where there is one."""
    inside_s = busy_s = 0.0
    for run in runs:
        busy_s += run.busy_s
        inside_s += sum(
            answer.ended_at - answer.sent_at
            for answer in run.answers
            if lane in (ALL, answer.gateway_lane or answer.lane)
        )
        if run.way == "gateway":
            waits = run.counters.wait_s
            if not waits:
                return math.nan
            inside_s -= sum(waits.values()) if lane == ALL else waits.get(lane, 0.0)
    return max(0.0, inside_s) / busy_s if busy_s else math.nan


def _sum(runs: Sequence[Run], name: str) -> float:
    values = [getattr(run.counters, name) for run in runs]
    return math.nan if None in values else float(sum(values))


def _share(runs: Sequence[Run], above: str, below: str) -> float:
    part, whole = _sum(runs, above), _sum(runs, below)
    return part / whole if whole and not math.isnan(part) else math.nan


def lanes_of(runs: Iterable[Run]) -> list[str]:
    """All of them together first, then those that had requests."""
    found = {answer.lane for run in runs for answer in run.answers}
    return [ALL, *(lane for lane in LANES if lane in found)]


def rows_of(runs: Sequence[Run], *, speed: float) -> list[Row]:
    """All rounds together, then each."""
    lanes = lanes_of(runs)
    by_round = [0, *sorted({run.round for run in runs})]
    return [
        row_of(these, lane, speed=speed, round=number)
        for number in by_round
        for way in WAYS
        if (these := [run for run in runs if run.way == way and number in (0, run.round)])
        for lane in lanes
    ]


@dataclass(frozen=True, slots=True)
class Ratio:
    """The gateway's figure by direct's of the same round: the median over the rounds, and its bounds."""

    lane: str
    of: str
    """The figure, as ``Row`` names it."""
    median: float
    least: float
    most: float


RATIOS = ("first_p50_ms", "first_p95_ms", "first_p99_ms", "token_p50_ms", "tokens_per_s")


def ratios_of(rows: Sequence[Row]) -> list[Ratio]:
    """Of each lane and figure that both ways have."""
    return _compared(rows, RATIOS, lambda ours, theirs: ours / theirs if theirs else math.nan)


def added_ms(rows: Sequence[Row], *, speed: float) -> list[Ratio]:
    """How much later than direct's the gateway's first tokens are, in milliseconds of the wall's clock."""
    return _compared(rows, ("first_p50_ms", "first_p95_ms"), lambda ours, theirs: (ours - theirs) / speed)


def _compared(rows: Sequence[Row], names: Sequence[str], by: Callable[[float, float], float]) -> list[Ratio]:
    found = {(row.way, row.round, row.lane): row for row in rows}
    lanes = list(dict.fromkeys(row.lane for row in rows))
    rounds = sorted({row.round for row in rows} - {0})
    ratios: list[Ratio] = []
    for lane in lanes:
        pairs = [(found.get(("gateway", number, lane)), found.get(("direct", number, lane))) for number in rounds]
        for name in names:
            values = [by(getattr(ours, name), getattr(theirs, name)) for ours, theirs in pairs if ours and theirs]
            values = [value for value in values if not math.isnan(value)]
            if values:
                ratios.append(Ratio(lane, name, median(values), min(values), max(values)))
    return ratios
