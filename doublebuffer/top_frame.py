"""A frame of ``doublebuffer top``: what was seen, as lines of a terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from buffer.verdict import duration
from doublebuffer.top_engines import engine_lines
from doublebuffer.top_paper import Paper, bar, fit, short, wrap

_STEPS = "▁▂▃▄▅▆▇█"
_LEVELS = {"ok": ("accent", "●"), "strained": ("warn", "▲"), "broken": ("bad", "✕")}
_LATE_S = 5.0
_PLOT_FROM = 44
"""Column at which plots begin."""
_MOST_REASONS = 4


def frame(seen: Mapping[str, Any], paper: Paper, *, note: str = "") -> list[str]:
    """``note``: what stands at the right of the first line. Where all does not fit, lanes without anybody go first,
    then the empty lines, then engines that are well."""
    title, verdict, figures = _title(seen, paper, note), _verdict(seen, paper), _figures(seen, paper)
    tail = [_workers(seen["workers"], paper), *_dead(seen, paper)]
    engines = engine_lines(seen["engines"], paper)
    for lanes, gap in ((seen["lanes"], [""]), (_busy(seen["lanes"]), [""]), (_busy(seen["lanes"]), [])):
        head = [title, *verdict, *gap, *figures, *gap, *_lanes(lanes, paper), *gap]
        room = paper.height - len(head) - len(gap) - len(tail)
        if not paper.height or sum(map(len, engines)) <= room:
            return [*head, *(line for lines in engines for line in lines), *gap, *tail]
    lines, shown = [*engines[0]], 1
    while shown < len(engines) and len(lines) + len(engines[shown]) < room:
        lines += engines[shown]
        shown += 1
    lines.append(paper.ink(f"… and {len(engines) - shown} more", "soft"))
    return [*head, *lines, *tail][: paper.height]


def _busy(lanes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [lane for lane in lanes if lane["waiting"] or lane["running"]] or list(lanes[:1])


def _title(seen: Mapping[str, Any], paper: Paper, note: str) -> str:
    name = f"Doublebuffer {seen['version']}"
    simulated = "  simulated engine" if seen["simulated"] else ""
    gap = max(2, paper.width - len(name) - len(simulated) - len(note))
    return paper.ink(name, "strong") + paper.ink(simulated, "warn") + " " * gap + paper.ink(note, "soft")


def _verdict(seen: Mapping[str, Any], paper: Paper) -> list[str]:
    colour, mark = _LEVELS[seen["verdict"]["level"]]
    says, *rest = wrap(seen["verdict"]["says"], paper.width - 2, 2)
    why = seen["verdict"]["why"][:_MOST_REASONS]
    return [
        paper.ink(f"{mark} ", colour) + paper.ink(says, "strong", colour),
        *("  " + paper.ink(line, "strong", colour) for line in rest),
        *(f"  {line}" for reason in why for line in wrap(reason, paper.width - 2, 2)),
    ]


def _figures(seen: Mapping[str, Any], paper: Paper) -> list[str]:
    minute, history = seen["minute"], seen["history"]
    oldest_s = max((lane["oldest_s"] for lane in seen["lanes"] if lane["name"] != "background"), default=0.0)
    first_s, first_95_s = minute["first_p50_s"], minute["first_p95_s"]
    mean, count = minute["mean_batch"], sum(seen["batches"].values())
    rate = history["tokens_per_s"][-1]
    rows = [
        ("First word", _time(first_s), f"95 % under {_time(first_95_s)}" if first_s is not None else "", "first_p50_s"),
        ("Waiting", str(seen["waiting"]), f"longest for {_time(oldest_s)}" if seen["waiting"] else "", "wait_p50_s"),
        ("Tokens/s", *_tokens(rate, minute["tokens_per_s"], seen["running"]), "tokens_per_s"),
        ("Batches", "–" if mean is None else f"{mean:.1f}", f"{count} in 5 min" if count else "", "batch"),
    ]
    if cache := seen.get("cache"):
        spared = "–" if cache["spared"] is None else f"{cache['spared']:.0%}"
        rows.append(("Cache", spared, f"of {cache['asked']} in 5 min", "spared"))
    told = []
    for name, value, about, plot in rows:
        text = f"{fit(name, 11)} {paper.ink(fit(value, 8), 'strong')} {paper.ink(fit(about, 22), 'soft')}"
        told.append(f"{text} {paper.ink(_plot(history[plot], max(0, paper.width - _PLOT_FROM)), 'accent')}".rstrip())
    return told


def _tokens(rate: float, minute_rate: float, running: int) -> tuple[str, str]:
    """They are told some seconds late: before that it is not known that there are none."""
    if running and not rate and not minute_rate:
        return "–", "none told yet"
    return short(rate), f"{short(minute_rate)} over a minute"


def _plot(values: Sequence[float | None], width: int) -> str:
    """Of the newest ``width`` points, of which each may stand for several."""
    if not width:
        return ""
    each = max(1, -(-len(values) // width))
    groups = [values[i : i + each] for i in range(len(values) % each, len(values), each)]
    points = [max((value for value in group if value is not None), default=None) for group in groups]
    top = max((point for point in points if point), default=0.0)
    return "".join(" " if not point else _STEPS[min(7, int(point / top * 7.99))] for point in points)


def _lanes(lanes: Sequence[Mapping[str, Any]], paper: Paper) -> list[str]:
    shown = [lane for lane in lanes if lane["name"] != "embeddings" or lane["waiting"]]
    wide = max(6, min(40, paper.width - 56))
    most = max(8, *(lane["waiting"] for lane in shown)) if shown else 8
    titles = f"{fit('LANE', 11)} {'WAITING':>7} {' ' * wide} {'LONGEST':>9} {'RUNNING':>8} {'FIRST':>7} {'95 %':>7}"
    lines = [paper.ink(titles, "soft")]
    for lane in shown:
        late = lane["oldest_s"] >= _LATE_S and lane["name"] != "background"
        longest = f"{_time(lane['oldest_s'] if lane['waiting'] else None):>9}"
        times = f"{_time(lane['first_p50_s']):>7} {_time(lane['first_p95_s']):>7}"
        lines.append(
            f"{fit(lane['name'], 11)} {lane['waiting']:>7} {bar(lane['waiting'], most, wide, paper)} "
            f"{paper.ink(longest, 'warn' if late else '')} {lane['running']:>8} {times}"
        )
    return lines


def _workers(workers: Sequence[Mapping[str, Any]], paper: Paper) -> str:
    names = ", ".join(f"{one['id']}{' (stopping)' if one['draining'] else ''}" for one in workers)
    return f"{paper.ink(fit('WORKERS', 14), 'soft')} {fit(f'{len(workers)}  {names}', paper.width - 15).rstrip()}"


def _dead(seen: Mapping[str, Any], paper: Paper) -> list[str]:
    letters = seen.get("letters") or []
    last = ""
    if letters:
        ago = duration(max(0.0, seen["at"] - letters[0]["at"]))
        last = f"  the last {ago} ago: {letters[0]['reason']}"
    first, *rest = wrap(str(seen["dead"]) + last, paper.width - 15, 2)
    return [f"{paper.ink(fit('DEAD LETTERS', 14), 'soft')} {first}", *(f"{' ' * 18}{line}" for line in rest)]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return duration(seconds) if seconds < 119.5 else f"{round(seconds) // 60}m{round(seconds) % 60:02}s"
