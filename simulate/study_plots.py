"""Line plots as inline SVG, in the colours of the page they stand in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 380, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 40

Points = Sequence[tuple[float, float]]


def plot(lines: Mapping[str, Points], *, label: str, x_name: str, log: bool = False, unit: str = "") -> str:
    """One plot. ``lines``: class of the line → its points; NaN leaves a gap. ``log``: of the y axis, in seconds."""
    known = {name: [point for point in points if not math.isnan(point[1])] for name, points in lines.items()}
    everything = [point for points in known.values() for point in points]
    if not everything:
        return ""
    xs, ys = [x for x, _ in everything], [y for _, y in everything]
    low_x, high_x = min(xs), max(xs)
    ticks = log_ticks(min(ys), max(ys)) if log else linear_ticks(max(ys))
    low_y, high_y = ticks[0], ticks[-1]

    def at_x(x: float) -> float:
        return LEFT + (x - low_x) / ((high_x - low_x) or 1) * (WIDTH - LEFT - RIGHT)

    def at_y(y: float) -> float:
        share = (math.log(max(y, low_y) / low_y) / math.log(high_y / low_y)) if log else y / (high_y or 1)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">']
    for tick in ticks:
        y = at_y(tick)
        text = seconds(tick) if log else f"{tick:g}{unit}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    parts += [
        f'<text class="tick" x="{at_x(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>'
        for x in x_ticks(sorted(set(xs)))
    ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="name" x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_name)}</text>')
    for name, points in known.items():
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        parts.append(f'<polyline class="line {name}" points="{path}"/>')
        if len(points) <= 12:
            parts += [
                f'<circle class="dot {name}" cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3"><title>{name}, {x:g}: '
                f"{seconds(y) if log else f'{y:.4g}{unit}'}</title></circle>"
                for x, y in points
            ]
    return "".join([*parts, "</svg>"])


def x_ticks(values: Sequence[float]) -> list[float]:
    """The values themselves if they are few, else round ones between them."""
    if len(values) <= 8:
        return list(values)
    return [tick for tick in linear_ticks(values[-1]) if tick <= values[-1]]


def linear_ticks(high: float) -> list[float]:
    """About five round numbers from 0 to ``high`` or a little above."""
    if high <= 0:
        return [0.0, 1.0]
    step = 10 ** math.floor(math.log10(high / 4))
    step *= next((factor for factor in (1, 2, 5, 10) if high / (step * factor) <= 5), 10)
    return [step * index for index in range(math.ceil(high / step - 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten around both."""
    first = math.floor(math.log10(max(low, 1e-3)))
    last = max(first + 1, math.ceil(math.log10(max(high, 1e-3)) - 1e-9))
    return [10.0**power for power in range(first, last + 1)]


def seconds(value: float) -> str:
    """As a person says it."""
    if value < 1:
        return f"{value * 1e3:.0f} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"
