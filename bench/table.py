"""The figures as a table for people. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bench.rows import WAYS, Ratio, Row, Run
from simulate.study_rows import ALL
from simulate.study_table import duration

HEAD = (
    f"{'way':<9}{'lane':<12}{'count':>6}{'first token p50':>17}{'p95':>10}{'p99':>10}{'a token p50':>13}{'p95':>9}"
    f"{'tokens/s':>10}{'in flight':>11}{'batch':>7}{'preempted':>11}{'refused':>9}{'failed':>8}"
)
RATIO_HEAD = f"{'gateway / direct':<21}{'first token p50':>24}{'p95':>24}{'a token p50':>24}{'tokens/s':>24}"
RATIO_FIELDS = ("first_p50_ms", "first_p95_ms", "token_p50_ms", "tokens_per_s")


def rows_table(rows: Sequence[Row]) -> str:
    """All rounds together."""
    whole = [row for row in rows if not row.round]
    return "\n".join([HEAD, *(_line(row) for row in whole)])


def _line(row: Row) -> str:
    return (
        f"{row.way if row.lane == ALL else '':<9}{row.lane:<12}{row.count:>6}{duration(row.first_p50_ms):>17}"
        f"{duration(row.first_p95_ms):>10}{duration(row.first_p99_ms):>10}{_milliseconds(row.token_p50_ms):>13}"
        f"{_milliseconds(row.token_p95_ms):>9}{row.tokens_per_s:>10.2f}{number(row.in_flight):>11}"
        f"{number(row.batch):>7}{number(row.preempted, 0):>11}{row.refused:>9}{row.failed:>8}"
    )


def ratios_table(ratios: Sequence[Ratio]) -> str:
    """Each as its median over the rounds and its bounds."""
    found = {(ratio.lane, ratio.of): ratio for ratio in ratios}
    lanes = list(dict.fromkeys(ratio.lane for ratio in ratios))
    lines = [
        f"{lane:<21}" + "".join(f"{_ratio(found.get((lane, field))):>24}" for field in RATIO_FIELDS) for lane in lanes
    ]
    return "\n".join([RATIO_HEAD, *lines])


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    return f"{_digits(ratio.median)} ({_digits(ratio.least)}-{_digits(ratio.most)})"


def _digits(value: float) -> str:
    """Throughput is about its fourth digit; a ratio of a hundred is not."""
    return f"{value:.4f}" if value < 10 else f"{value:.1f}"


def added_lines(added: Sequence[Ratio]) -> str:
    """First tokens later than direct, in the wall's milliseconds."""
    names = {"first_p50_ms": "p50", "first_p95_ms": "p95"}
    return "\n".join(
        f"{one.lane:<12}{names[one.of]}: {one.median:+.1f} ms ({one.least:+.1f} to {one.most:+.1f})" for one in added
    )


def cores_table(runs: Sequence[Run]) -> str:
    """Share of a core that each process used, mean over the rounds; empty where nothing could be looked at."""
    shares = cores_of(runs)
    names = list(dict.fromkeys(name for by_name in shares.values() for name in by_name))
    lines = [f"{name:<18}" + "".join(f"{_share(shares[way].get(name)):>10}" for way in WAYS) for name in names]
    return "\n".join([f"{'share of a core':<18}" + "".join(f"{way:>10}" for way in WAYS), *lines]) if lines else ""


def cores_of(runs: Sequence[Run]) -> dict[str, Mapping[str, float]]:
    """Way → process → share, weighted by how long the runs were."""
    found: dict[str, Mapping[str, float]] = {}
    for way in WAYS:
        these = [run for run in runs if run.way == way]
        span_s = sum(run.span_s for run in these)
        names = list(dict.fromkeys(name for run in these for name in run.cores))
        found[way] = {
            name: sum(run.cores.get(name, 0.0) * run.span_s for run in these) / span_s for name in names if span_s
        }
    return found


def number(value: float, digits: int = 2) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _milliseconds(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f} ms"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"
