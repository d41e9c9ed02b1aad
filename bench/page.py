"""The bench as one page that tells somebody who has never heard of the project what it found. Nothing is fetched."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from html import escape

from bench.report import Report
from bench.rows import WAYS, Row, Run, Way
from bench.table import cores_table, ratios_table, rows_table
from simulate.page import LANES, figure, key, whole
from simulate.study_plots import plot, seconds
from simulate.study_rows import ALL, percentile

LINES: dict[Way, str] = {"direct": "direct", "gateway": "doublebuffer"}
"""Way → class of its line."""
KEYS = {"direct": "direct: every request goes to the engine at once", "doublebuffer": "through Doublebuffer"}
SHARES = tuple(range(2, 101, 2))
INSTANTS = 240


def page(report: Report) -> str:
    """The whole page."""
    said = "".join(f'<p class="said">{escape(line)}</p>' for line in report.said)
    warned = "".join(f'<p class="said">Note: {escape(line)}</p>' for line in report.warnings)
    parts = [
        "<h1>How long until the first word</h1>",
        "<p>The same requests were sent to one engine twice, in turns: straight to it, and through Doublebuffer, which "
        "decides who goes when. What counts for a person is how long it takes until the first word, and how fast the "
        "others follow; what counts for whoever pays for the engine is how many words it writes in all.</p>",
        f'<p class="gist">{_gist(report)}</p>',
        said,
        key(KEYS),
        f'<div class="plots">{"".join(_figures(report))}</div>',
        "<h2>All figures</h2>",
        f"<p>{escape(report.title)}. A lane is a kind of request, by the length of its prompt. In flight: how many "
        "were at the engine at a time, on the average. Times are the engine's own.</p>",
        f"<pre>{escape(rows_table(report.rows))}</pre>",
        "<p>Through the gateway by direct, as the median over the rounds and its bounds:</p>",
        f"<pre>{escape(ratios_table(report.ratios))}</pre>",
        "<p>What the processes took of a core meanwhile:</p>" if cores_table(report.runs) else "",
        f"<pre>{escape(cores_table(report.runs))}</pre>" if cores_table(report.runs) else "",
        warned,
    ]
    return whole("Doublebuffer: the bench", parts)


def _gist(report: Report) -> str:
    """The plots in a sentence."""
    rows = {(row.way, row.lane): row for row in report.rows if not row.round}
    lane = next((lane for lane in LANES if _both(rows, lane)), ALL)
    ours, theirs = rows.get(("gateway", lane)), rows.get(("direct", lane))
    if ours is None or theirs is None or math.isnan(ours.first_p95_ms) or math.isnan(theirs.first_p95_ms):
        return "Nothing was answered both ways."
    name = {"fast": "short chats", "normal": "middle prompts", "slow": "long documents"}.get(lane, "requests")
    everything, direct = rows["gateway", ALL], rows["direct", ALL]
    share = everything.tokens_per_s / direct.tokens_per_s if direct.tokens_per_s else math.nan
    text = (
        f"95 of 100 {name} have their first word within <strong>{seconds(ours.first_p95_ms / 1e3)}</strong> through "
        f"Doublebuffer, and within <strong>{seconds(theirs.first_p95_ms / 1e3)}</strong> sent direct."
    )
    return text if math.isnan(share) else f"{text} The engine's throughput is {share * 100:.1f} % of direct's."


def _both(rows: dict[tuple[Way, str], Row], lane: str) -> bool:
    return all((way, lane) in rows and not math.isnan(rows[way, lane].first_p95_ms) for way in WAYS)


def _figures(report: Report) -> list[str]:
    speed = report.plan.speed
    figures = []
    for lane, name in LANES.items():
        lines = {LINES[way]: _first_tokens(report.runs, way, lane, speed) for way in WAYS}
        heading = f"{name}: time to the first word"
        figures.append(figure(heading, plot(lines, label=heading, x_name="so many of 100 have it by then", log=True)))
    paces = {LINES[way]: _paces(report.runs, way, speed) for way in WAYS}
    heading = "Time from one word to the next"
    figures.append(
        figure(heading, plot(paces, label=heading, x_name="so many of 100 answers are no slower", unit=" ms"))
    )
    heading = "Requests without their first word, over the first round"
    queues = {LINES[way]: _waiting(report.runs, way, speed) for way in WAYS}
    figures.append(figure(heading, plot(queues, label=heading, x_name="seconds of the engine's time")))
    if report.plan.rounds > 1:
        heading = "Throughput, tokens a second"
        rates = {
            LINES[way]: [
                (float(row.round), row.tokens_per_s)
                for row in report.rows
                if row.round and row.way == way and row.lane == ALL
            ]
            for way in WAYS
        }
        figures.append(figure(heading, plot(rates, label=heading, x_name="round")))
    return figures


def _first_tokens(runs: Sequence[Run], way: Way, lane: str, speed: float) -> list[tuple[float, float]]:
    firsts = [
        answer.first_token_s * speed
        for run in runs
        if run.way == way
        for answer in run.answers
        if answer.lane == lane and not math.isnan(answer.first_at)
    ]
    return [(float(share), percentile(firsts, share / 100)) for share in SHARES] if firsts else []


def _paces(runs: Sequence[Run], way: Way, speed: float) -> list[tuple[float, float]]:
    paces = [
        answer.token_s * 1e3 * speed
        for run in runs
        if run.way == way
        for answer in run.answers
        if not math.isnan(answer.token_s)
    ]
    return [(float(share), percentile(paces, share / 100)) for share in SHARES] if paces else []


def _waiting(runs: Sequence[Run], way: Way, speed: float) -> list[tuple[float, float]]:
    """How many wait at each of ``INSTANTS`` instants of the first round."""
    first = {run.way: run for run in runs if run.round == 1}
    if way not in first:
        return []
    span_s = max(run.span_s for run in first.values())
    answers = [answer for answer in first[way].answers if not math.isnan(answer.first_at)]
    came, begun = sorted(one.due_at for one in answers), sorted(one.first_at for one in answers)
    instants = [span_s * index / (INSTANTS - 1) for index in range(INSTANTS)]
    return [(at * speed, float(bisect_right(came, at) - bisect_right(begun, at))) for at in instants]
