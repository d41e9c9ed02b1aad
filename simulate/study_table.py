"""The study's rows as a table for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simulate.study_rows import ALL, Row

HEAD = (
    f"{'policy':<13}{'lane':<8}{'count':>6}{'first token p50':>17}{'p95':>10}{'p99':>10}{'longest wait':>14}"
    f"{'tokens/s':>10}{'batch':>7}{'in flight':>11}{'preempted':>11}{'refused':>9}"
)


def title(row: Row) -> str:
    """Which run a block of rows is of."""
    where = f"{row.clients} clients" if row.clients else f"load {row.load:g}"
    return f"{row.workload}, {row.profile}, {where}, seed {row.seed}"


def block(rows: Sequence[Row]) -> str:
    """The rows of one run of all policies."""
    return "\n".join([title(rows[0]), HEAD, *(_line(row) for row in rows), ""])


def _line(row: Row) -> str:
    line = (
        f"{row.policy if row.lane == ALL else '':<13}{row.lane:<8}{row.count:>6}{duration(row.ttft_p50_ms):>17}"
        f"{duration(row.ttft_p95_ms):>10}{duration(row.ttft_p99_ms):>10}{duration(row.max_wait_s * 1e3):>14}"
        f"{row.tokens_per_s:>10.2f}"
    )
    if row.lane != ALL:
        return f"{line}{'':>29}{row.refused:>9}"
    return f"{line}{row.mean_batch:>7.2f}{row.mean_in_flight:>11.2f}{row.preemptions:>11}{row.refused:>9}"


def duration(milliseconds: float) -> str:
    """With a unit, three digits or so."""
    if math.isnan(milliseconds):
        return "-"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1e3:.2f} s" if milliseconds < 10_000 else f"{milliseconds / 1e3:.1f} s"
