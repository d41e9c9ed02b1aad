"""The study as one page: what the gateway changes, in plots, and the table behind them. Nothing is fetched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from simulate.study import POLICIES, Case
from simulate.study_curves import LOADS, QUEUE_LOAD, Curves, curves_of
from simulate.study_plots import plot, seconds
from simulate.study_rows import ALL, Row
from simulate.study_table import block, title

LANES = {
    "fast": "Short chats (up to 512 tokens)",
    "normal": "Middle prompts (up to 4,096)",
    "slow": "Long documents",
}

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#5b6570;--grid:#e3e7eb;--card:#f7f8fa;
--doublebuffer:#0b6bcb;--direct:#c2410c;--fixed-window:#9a7b16}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e8ebee;--soft:#9aa4af;--grid:#2b3138;--card:#1b1f25;
--doublebuffer:#5cb0ff;--direct:#ff8a5c;--fixed-window:#d9b94a}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1240px;margin:0 auto;padding:24px 20px 60px}h1{margin:.2em 0}h2{margin:2em 0 .3em}h3{margin:0 0 .3em;
font-size:15px}p{max-width:75ch}.said{color:var(--soft)}.plots{display:grid;gap:16px;
grid-template-columns:repeat(auto-fit,minmax(320px,1fr))}figure{margin:0;padding:14px;background:var(--card);
border-radius:10px}svg{width:100%;height:auto;display:block}.grid{stroke:var(--grid)}.tick,.name{fill:var(--soft);
font-size:11px}.line{fill:none;stroke-width:2.5}.direct{stroke:var(--direct)}.fixed-window{stroke:var(--fixed-window);
stroke-dasharray:5 4}.doublebuffer{stroke:var(--doublebuffer)}.dot{stroke:none}.dot.direct{fill:var(--direct)}
.dot.fixed-window{fill:var(--fixed-window)}.dot.doublebuffer{fill:var(--doublebuffer)}.key{display:flex;gap:22px;
flex-wrap:wrap;list-style:none;padding:0}.key svg{width:34px;display:inline-block;vertical-align:middle;
margin-right:6px}pre{overflow-x:auto;background:var(--card);padding:14px;border-radius:10px;font-size:12.5px}
"""

KEYS = {
    "direct": "direct: every request goes to the engine at once",
    "fixed-window": "fixed window: 50 ms or eight requests, then they go",
    "doublebuffer": "Doublebuffer",
}


def page(cases: Sequence[Case], rows: Sequence[Row], *, processes: int = 1) -> str:
    """The whole page. It runs each open workload anew over a range of loads, which takes a minute or so."""
    curves = curves_of(cases, processes=processes)
    keys = "".join(
        f'<li><svg viewBox="0 0 34 10"><line class="line {name}" x1="0" x2="34" y1="5" y2="5"/></svg>{text}</li>'
        for name, text in KEYS.items()
    )
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Doublebuffer: the study</title>',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<style>{STYLE}</style></head><body><main>",
        "<h1>How long until the first word</h1>",
        "<p>One engine, many people: some ask a short question, some send a long document. Sent straight to the "
        "engine, they stand in one line. Doublebuffer decides who goes when, and how much of a document at a time.</p>",
        '<p class="said"><strong>Simulated.</strong> Virtual time on a model of an engine and a card, with the '
        "product's own scheduling rules; not a measurement of a real one. Load 1 is what the engine just sustains when "
        "all is sent at once.</p>",
        f'<ul class="key">{keys}</ul>',
        *(section(one) for one in curves),
        "<h2>All runs</h2>",
        *(f"<pre>{escape(text)}</pre>" for text in blocks(rows)),
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


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
        _figure(
            f"{name}: first token, 95th percentile",
            plot(over_load(lane, "ttft_p95_ms", 1e-3), label=name, x_name="load", log=True),
        )
        for lane, name in LANES.items()
    ]
    figures.append(
        _figure(
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
        _figure(
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


def _figure(heading: str, svg: str) -> str:
    return f"<figure><h3>{escape(heading)}</h3>{svg}</figure>" if svg else ""
