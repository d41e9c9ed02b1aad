"""A frame of ``doublebuffer top``: what was seen, as lines of a terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from buffer.verdict import duration

_STEPS = "▁▂▃▄▅▆▇█"
_KINDS = {"vllm": "vLLM", "ollama": "Ollama", "llamacpp": "llama.cpp", "openai": "OpenAI API"}
_LEVELS = {"ok": ("accent", "●"), "strained": ("warn", "▲"), "broken": ("bad", "✕")}
_STATES = ("down", "open", "trial", "starting", "up", "spare")
_SHORT = {"starting": "starts"}
_CODES = {"accent": "36", "warn": "33", "bad": "31", "soft": "2", "strong": "1"}
_LATE_S = 5.0
_NAME = 14
_KINDS_FROM = 90
"""Columns from which on the kinds of engines have one."""
_PLOT_FROM = 44
"""Column at which plots begin."""


@dataclass(frozen=True, slots=True)
class Paper:
    """``width`` and ``height`` in characters; ``height`` 0: as many lines as it takes. ``colours``: with ANSI's."""

    width: int
    height: int
    colours: bool

    def ink(self, text: str, *names: str) -> str:
        codes = ";".join(_CODES[name] for name in names if name)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colours and codes else text


def frame(seen: Mapping[str, Any], paper: Paper, *, note: str = "") -> list[str]:
    """``note``: what stands at the right of the first line."""
    head = [_title(seen, paper, note), *_verdict(seen, paper), "", *_figures(seen, paper), ""]
    head += [*_lanes(seen["lanes"], paper), ""]
    tail = ["", _workers(seen["workers"], paper), _dead(seen, paper)]
    engines = _engines(seen["engines"], paper)
    room = paper.height - len(head) - len(tail) if paper.height else len(engines)
    if room < len(engines):
        kept = max(2, room - 1)
        more = len(engines) - kept
        engines = [*engines[:kept], paper.ink(f"… and {more} more", "soft")] if more > 0 else engines
    lines = [*head, *engines, *tail]
    return lines[: paper.height] if paper.height else lines


def plain(text: str) -> str:
    """Without whatever a terminal would obey: names and reasons come from engines."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(char)[0] == "C" else char for char in text)


def fit(text: str, width: int) -> str:
    """Cut or filled to so many columns; some characters take two."""
    cut, used = "", 0
    text = plain(text)
    for i, char in enumerate(text):
        wide = 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used + wide > width - (1 if i < len(text) - 1 else 0):
            cut, used = (f"{cut}…", used + 1) if used < width else (cut, used)
            break
        cut, used = cut + char, used + wide
    return cut + " " * max(0, width - used)


def _title(seen: Mapping[str, Any], paper: Paper, note: str) -> str:
    name = f"Doublebuffer {seen['version']}"
    simulated = "  simulated engine" if seen["simulated"] else ""
    gap = max(2, paper.width - len(name) - len(simulated) - len(note))
    return paper.ink(name, "strong") + paper.ink(simulated, "warn") + " " * gap + paper.ink(note, "soft")


def _verdict(seen: Mapping[str, Any], paper: Paper) -> list[str]:
    colour, mark = _LEVELS[seen["verdict"]["level"]]
    says = fit(seen["verdict"]["says"], paper.width - 2).rstrip()
    return [
        paper.ink(f"{mark} ", colour) + paper.ink(says, "strong", colour),
        *(f"  {fit(line, paper.width - 2).rstrip()}" for line in seen["verdict"]["why"][:4]),
    ]


def _figures(seen: Mapping[str, Any], paper: Paper) -> list[str]:
    minute, history = seen["minute"], seen["history"]
    oldest_s = max((lane["oldest_s"] for lane in seen["lanes"] if lane["name"] != "background"), default=0.0)
    first_s, first_95_s = minute["first_p50_s"], minute["first_p95_s"]
    mean, count = minute["mean_batch"], sum(seen["batches"].values())
    rate, minute_rate = history["tokens_per_s"][-1], minute["tokens_per_s"]
    rows = [
        ("First word", _time(first_s), f"95 % under {_time(first_95_s)}" if first_s is not None else "", "first_p50_s"),
        ("Waiting", str(seen["waiting"]), f"longest for {_time(oldest_s)}" if seen["waiting"] else "", "wait_p50_s"),
        ("Tokens/s", _short(rate), f"{_short(minute_rate)} over a minute", "tokens_per_s"),
        ("Batches", "–" if mean is None else f"{mean:.1f}", f"{count} in 5 min" if count else "", "batch"),
    ]
    told = []
    for name, value, about, plot in rows:
        text = f"{fit(name, 11)} {paper.ink(fit(value, 8), 'strong')} {paper.ink(fit(about, 22), 'soft')}"
        told.append(f"{text} {paper.ink(_plot(history[plot], max(0, paper.width - _PLOT_FROM)), 'accent')}".rstrip())
    return told


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
    bar = max(6, min(40, paper.width - 56))
    most = max(8, *(lane["waiting"] for lane in shown)) if shown else 8
    titles = f"{fit('LANE', 11)} {'WAITING':>7} {' ' * bar} {'LONGEST':>9} {'RUNNING':>8} {'FIRST':>7} {'95 %':>7}"
    lines = [paper.ink(titles, "soft")]
    for lane in shown:
        late = lane["oldest_s"] >= _LATE_S and lane["name"] != "background"
        longest = f"{_time(lane['oldest_s'] if lane['waiting'] else None):>9}"
        times = f"{_time(lane['first_p50_s']):>7} {_time(lane['first_p95_s']):>7}"
        lines.append(
            f"{fit(lane['name'], 11)} {lane['waiting']:>7} {_bar(lane['waiting'], most, bar, paper)} "
            f"{paper.ink(longest, 'warn' if late else '')} {lane['running']:>8} {times}"
        )
    return lines


def _engines(engines: Sequence[Mapping[str, Any]], paper: Paper) -> list[str]:
    kinds = paper.width >= _KINDS_FROM
    rest = max(0, paper.width - _NAME - 62 - 11 * kinds)
    titles = f"{fit('ENGINE', _NAME)} {fit('KIND', 10) + ' ' if kinds else ''}{fit('STATE', 6)} "
    titles += f"{fit('PLACES', 21)} {fit('MEMORY', 21)} TOKENS/S"
    lines = [paper.ink(f"{titles}  MODELS" if rest > 8 else titles, "soft")]
    if not engines:
        return [*lines, "None is known yet. Workers tell of them once they run."]
    for engine in sorted(engines, key=lambda engine: (_STATES.index(engine["state"]), engine["name"])):
        state = engine["state"]
        colour = {"down": "bad", "open": "warn", "trial": "warn", "spare": "soft"}.get(state, "accent")
        about = f"{fit(engine['name'], _NAME)} "
        about += f"{fit(_KINDS.get(engine['kind'], engine['kind']), 10)} " if kinds else ""
        about += f"{paper.ink(fit(_SHORT.get(state, state), 6), colour)} "
        if state == "down":
            lines.append(
                about + fit(engine["error"] or "It cannot be reached.", paper.width - _NAME - 8 - 11 * kinds).rstrip()
            )
            continue
        places = _gauge(engine["jobs"], engine["limit"], paper)
        memory = _gauge(engine["kv"], engine["kv_tokens"], paper)
        loaded = engine["loaded"] or engine["models"]
        models = f"  {fit(', '.join(loaded), rest).rstrip()}" if rest > 8 else ""
        lines.append(f"{about}{places} {memory} {_short(engine['tokens_per_s']):>8}{models}".rstrip())
    return lines


def _gauge(used: int, whole: int, paper: Paper) -> str:
    """21 columns: a bar, and how much of what."""
    if not whole:
        return " " * 21
    size = 8
    return f"{_bar(used, whole, size, paper)} {fit(f'{_short(used)}/{_short(whole)}', 12)}"


def _bar(used: int, whole: int, width: int, paper: Paper) -> str:
    filled = min(width, -(-used * width // max(1, whole)))
    return paper.ink("█" * filled, "accent") + paper.ink("·" * (width - filled), "soft")


def _workers(workers: Sequence[Mapping[str, Any]], paper: Paper) -> str:
    names = ", ".join(f"{one['id']}{' (stopping)' if one['draining'] else ''}" for one in workers)
    return f"{paper.ink(fit('WORKERS', 14), 'soft')} {fit(f'{len(workers)}  {names}', paper.width - 15).rstrip()}"


def _dead(seen: Mapping[str, Any], paper: Paper) -> str:
    letters = seen.get("letters") or []
    last = ""
    if letters:
        ago = duration(max(0.0, seen["at"] - letters[0]["at"]))
        last = f"  the last {ago} ago: {letters[0]['reason']}"
    return f"{paper.ink(fit('DEAD LETTERS', 14), 'soft')} {fit(str(seen['dead']) + last, paper.width - 15).rstrip()}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return duration(seconds) if seconds < 119.5 else f"{round(seconds) // 60}m{round(seconds) % 60:02}s"


def _short(value: float) -> str:
    if value < 1000:
        return f"{value:.1f}" if 0 < value < 9.95 and value % 1 else f"{value:.0f}"
    return f"{value / 1000:.{1 if value < 9950 else 0}f}k" if value < 999_500 else f"{value / 1e6:.1f}M"
