"""The study as one page: what the gateway changes, in plots, and the table behind them. Nothing is fetched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from simulate.page import LANES, figure, key, whole
from simulate.study import POLICIES, Case
from simulate.study_curves import LOADS, QUEUE_LOAD, Curves, curves_of
from simulate.study_plots import plot, seconds
from simulate.study_rows import ALL, Row
from simulate.study_table import block, title

KEYS = {
    "direct": "direct: every request goes to the engine at once",
    "fixed-window": "fixed window: 50 ms or eight requests, then they go",
    "doublebuffer": "Doublebuffer",
}


def page(cases: Sequence[Case], rows: Sequence[Row], *, processes: int = 1) -> str:
    """The whole page. It runs each open workload anew over a range of loads, which takes a minute or so."""
    curves = curves_of(cases, processes=processes)
    parts = [
        "<h1>How long until the first word</h1>",
        "<p>One engine, many people: some ask a short question, some send a long document. Sent straight to the "
        "engine, they stand in one line. Doublebuffer decides who goes when, and how much of a document at a time.</p>",
        '<p class="said"><strong>Simulated.</strong> Virtual time on a model of an engine and a card, with the '
        "product's own scheduling rules; not a measurement of a real one. Load 1 is what the engine just sustains when "
        "all is sent at once.</p>",
        key(KEYS),
        *(section(one) for one in curves),
        "<h2>All runs</h2>",
        *(f"<pre>{escape(text)}</pre>" for text in blocks(rows)),
    ]
    return whole("Doublebuffer: the study", parts)


def blocks(rows: Sequence[Row]) -> list[str]:
    """The table, a block for each run."""
    by_run: dict[str, list[Row]] = {}
    for row in rows:
        by_run.setdefault(title(row), []).append(row)
    return [block(of_it) for of_it in by_run.values()]


def section(curves: Curves) -> str:
    """The plots of one workload."""
    values = {(row.policy, row.lane, row.load): row for row in curves.rows}

    def over_load(lane: str, field: str, scale: float = 1.0) -> dict[str, list[tuple[float, float]]]:
        return {
            policy: [
                (load, getattr(values[policy, lane, load], field) * scale)
                for load in LOADS
                if (policy, lane, load) in values
            ]
            for policy in POLICIES
        }

    figures = [
        figure(
            f"{name}: first token, 95th percentile",
            plot(over_load(lane, "ttft_p95_ms", 1e-3), label=name, x_name="load", log=True),
        )
        for lane, name in LANES.items()
    ]
    figures.append(
        figure(
            "Throughput, tokens a second",
            plot(over_load(ALL, "tokens_per_s"), label="throughput over load", x_name="load"),
        )
    )
    step_s = curves.span_s / max(1, len(next(iter(curves.queues.values()))) - 1)
    queues = {
        policy: [(index * step_s, float(count)) for index, count in enumerate(counts)]
        for policy, counts in curves.queues.items()
    }
    figures.append(
        figure(
            f"Requests without their first token, at load {QUEUE_LOAD:g}",
            plot(queues, label="queue over time", x_name="seconds of the model's time"),
        )
    )
    heading = f"<h2>{escape(curves.case.workload)} on {escape(curves.case.profile)}</h2>"
    return f'{heading}<p>{_gist(values)}</p><div class="plots">{"".join(figures)}</div>'


def _gist(values: dict[tuple[str, str, float], Row]) -> str:
    """The plots in a sentence."""
    ours, theirs = values.get(("doublebuffer", "fast", QUEUE_LOAD)), values.get(("direct", "fast", QUEUE_LOAD))
    if ours is None or theirs is None or math.isnan(ours.ttft_p95_ms) or math.isnan(theirs.ttft_p95_ms):
        return ""
    share = values["doublebuffer", ALL, QUEUE_LOAD].tokens_per_s / values["direct", ALL, QUEUE_LOAD].tokens_per_s
    return (
        f"At load {QUEUE_LOAD:g}, 95 of 100 short chats have their first token within "
        f"<strong>{seconds(ours.ttft_p95_ms / 1e3)}</strong> through Doublebuffer, and within "
        f"<strong>{seconds(theirs.ttft_p95_ms / 1e3)}</strong> sent direct; the engine's throughput is "
        f"{share * 100:.1f} % of direct's."
    )
