"""What came of a run: as a table, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.cost.machine import Machine
from bench.cost.rows import ROWS, Figures

SAID = "Against a mock engine that costs little: these are costs of what stands between, and no speeds of models."
UNITS = {
    "whole_p50_ms": ("answer p50, ms", 2),
    "whole_p99_ms": ("answer p99, ms", 2),
    "first_p50_ms": ("first token above the engine's own p50, ms", 2),
    "first_p99_ms": ("first token above the engine's own p99, ms", 2),
    "gap_p95_ms": ("between tokens p95, ms", 2),
    "answers_s": ("answers/s", 0),
    "tokens_s": ("tokens/s", 0),
    "stream_tokens_s": ("tokens/s of a stream", 1),
    "cpu_us_answer": ("CPU an answer, µs", 0),
    "cpu_us_token": ("CPU a token, µs", 1),
    "lost": ("lost", 0),
}


@dataclass(slots=True)
class Result:
    machine: Machine
    rounds: int
    absent: dict[str, str]
    """Path → why it could not be measured."""
    rows: dict[str, dict[str, Figures]]
    """Row → path → medians over the rounds."""
    each: dict[str, dict[str, list[Figures]]]
    """The same for every round."""
    waiting: dict[str, float] = field(default_factory=dict)
    """What 10,000 waiting jobs cost; see ``bench.cost.waiting``."""

    def of(self, row: str, path: str, figure: str) -> float:
        """NaN: it was not measured."""
        return self.rows.get(row, {}).get(path, {}).get(figure, math.nan)

    def as_json(self) -> str:
        return json.dumps(_plain(asdict(self)), indent=1) + "\n"

    def table(self) -> str:
        """In Markdown, one column for each path."""
        names = _names(self.rows.values())
        lines = ["| | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
        for row in ROWS:
            if row.key not in self.rows:
                continue
            lines.append(f"| **{row.title}** |" + " |" * len(names))
            for figure in row.shows:
                title, places = UNITS[figure]
                cells = [_number(self.of(row.key, name, figure), places) for name in names]
                lines.append(f"| {title} | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def waiting_table(self) -> str:
        """In Markdown: what ten waiting jobs cost, and ten thousand. Empty: it was not measured."""
        if not self.waiting:
            return ""
        lines = ["| waiting jobs | 10 | 10,000 |", "| --- | ---: | ---: |"]
        for title, name, scale, places in WAITING:
            few, many = (self.waiting.get(f"{name}_{count}", math.nan) * scale for count in (10, 10_000))
            # Of ten clients the gateway's memory tells nothing.
            cells = ["–" if name == "memory" else _number(few, places), _number(many, places)]
            lines.append(f"| {title} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"


WAITING = (
    ("a pull in Redis, p50, µs", "pull_us", 1.0, 0),
    ("a submit in Redis, p50, µs", "submit_us", 1.0, 0),
    ("/metrics, p50, ms", "metrics_ms", 1.0, 1),
    ("the gateway's memory, KB a client", "memory", 1e-3, 1),
)


def _names(rows: Iterable[Mapping[str, Figures]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _number(value: float, places: int) -> str:
    return "–" if math.isnan(value) else f"{value:,.{places}f}"


def _plain(value: Any) -> Any:
    """JSON knows no NaN."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
