"""Everything that a bench found out, as text and as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from bench.asking import Answer
from bench.plan import Plan
from bench.rows import Ratio, Row, Run, added_ms, ratios_of, rows_of
from bench.table import added_lines, cores_table, ratios_table, rows_table

LATE_MS = 5.0
"""A load generator that sends its requests later than this, 99 of 100, measures itself."""


@dataclass
class Report:
    plan: Plan
    simulated: str
    """The profile of the simulated engine; empty: nothing is known to be simulated."""
    model: str
    runs: Sequence[Run]
    notes: Sequence[str] = ()
    rate: float = 0.0
    """Requests a second of the engine's time; 0 in a closed loop."""
    load_average: float | None = None
    """Of the machine, over the last minute before the first round."""

    @cached_property
    def rows(self) -> list[Row]:
        return rows_of(self.runs, speed=self.plan.speed)

    @cached_property
    def ratios(self) -> list[Ratio]:
        return ratios_of(self.rows)

    @cached_property
    def added(self) -> list[Ratio]:
        return added_ms(self.rows, speed=self.plan.speed)

    @property
    def title(self) -> str:
        plan = self.plan
        where = f"{plan.clients} clients" if plan.clients else f"{self.rate:.4g} requests/s"
        load = f" (load {plan.load:g})" if plan.load else ""
        of = self.simulated or self.model
        slots = f", {plan.profile.slots} slots" if plan.profile is not None else ""
        return (
            f"{plan.workload} on {of}{slots}, {where}{load}, {len(plan.drawn)} requests a round, {plan.rounds} rounds, "
            f"seed {plan.seed}"
        )

    @property
    def said(self) -> list[str]:
        """What the figures are, before anybody reads one."""
        lines: list[str] = []
        if self.simulated:
            which = f" ({self.simulated})" if self.plan.profile else ""
            lines.append(
                f"SIMULATED: the engine is a model of one{which}, not a measurement. What stands in front of it is "
                "real: HTTP, gateway, Redis, workers."
            )
        if self.plan.speed != 1:
            lines.append(
                f"TIME SCALED: the engine runs {self.plan.speed:g} times as fast as modelled, and times are told in "
                f"its own clock: a millisecond that the gateway takes shows as {self.plan.speed:g}."
            )
        return [*lines, *self.notes]

    @property
    def warnings(self) -> list[str]:
        """What makes the figures doubtful."""
        found: list[str] = []
        late = [answer.sent_at - answer.due_at for run in self.runs for answer in run.answers]
        late_ms = sorted(late)[max(0, math.ceil(0.99 * len(late)) - 1)] * 1e3 if late else 0.0
        if late_ms > LATE_MS:
            found.append(f"the load generator was late: 99 of 100 requests were sent within {late_ms:.1f} ms (wall).")
        busy = max((run.cores.get("load generator", 0.0) for run in self.runs), default=0.0)
        if busy > 0.7:
            found.append(f"the load generator used {busy * 100:.0f} % of a core, so that it may have measured itself.")
        moved = sum(answer.gateway_lane not in ("", answer.lane) for run in self.runs for answer in run.answers)
        if moved:
            found.append(f"{moved} requests went to another lane than the workload's count of their tokens tells.")
        troubles = sorted({answer.trouble for run in self.runs for answer in run.answers if answer.outcome == "failed"})
        if troubles:
            found.append(f"some requests failed: {', '.join(troubles)}.")
        return found

    @property
    def machine(self) -> Mapping[str, Any]:
        return {
            "system": platform.platform(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load_average_before": self.load_average,
            "load_average_after": self.runs[-1].load_average if self.runs else None,
        }

    def text(self) -> str:
        parts = [*self.said, self.title, "", rows_table(self.rows), "", ratios_table(self.ratios), ""]
        parts += ["first token later than direct, by the wall's clock", added_lines(self.added), ""]
        parts += [cores_table(self.runs), *(f"Note: {warning}" for warning in self.warnings)]
        return "\n".join(parts)


def to_json(report: Report) -> str:
    """All of it. NaN is null."""
    plan = asdict(report.plan)
    for name in ("drawn", "trace", "key"):
        plan.pop(name)
    told = {
        "title": report.title,
        "simulated": report.simulated or None,
        "said": report.said,
        "warnings": report.warnings,
        "machine": report.machine,
        "plan": plan | {"requests": len(report.plan.drawn), "rate": report.rate},
        "rows": [asdict(row) for row in report.rows],
        "ratios": [asdict(ratio) for ratio in report.ratios],
        "added_ms": [asdict(one) for one in report.added],
        "runs": [_run(run) for run in report.runs],
    }
    return json.dumps(_plain(told), indent=1, allow_nan=False)


def _run(run: Run) -> dict[str, Any]:
    return {
        "way": run.way,
        "round": run.round,
        "span_s": run.span_s,
        "cores": dict(run.cores),
        "load_average": run.load_average,
        "counters": asdict(run.counters),
        "requests": [_answer(answer) for answer in run.answers],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(answer).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
