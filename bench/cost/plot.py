"""The costs of all paths side by side, as an SVG picture."""

from __future__ import annotations

import math
from html import escape

from bench.cost.result import Result

PANELS = (
    ("CPU an answer, 32 clients, µs", "whole-32", "cpu_us_answer", False),
    ("CPU a token, 32 streams at full speed, µs", "speed-32", "cpu_us_token", False),
    ("added to a whole answer, one client, p50, ms", "whole-1", "whole_p50_ms", True),
    ("added to the first token, 64 streams, p50, ms", "paced-64", "first_p50_ms", True),
)
"""Title, row, figure, and whether direct's is taken off."""
WIDTH, LABEL, BAR, GAP, TOP = 760, 150, 18, 6, 30
_INK, _MUTED, _OURS, _OTHERS = "#1f2933", "#616e7c", "#d9480f", "#9fb3c8"


def plot(result: Result) -> str:
    """Bars on a logarithmic scale, one panel for each cost. What was not measured has none."""
    parts: list[str] = []
    y = 0
    for title, row, figure, added in PANELS:
        values = _values(result, row, figure, added=added)
        if values:
            parts.append(_panel(title, values, y))
            y += TOP + len(values) * (BAR + GAP) + 14
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _values(result: Result, row: str, figure: str, *, added: bool) -> list[tuple[str, float]]:
    of_row = result.rows.get(row, {})
    base = result.of(row, "direct", figure) if added else 0.0
    found = [(name, figures[figure] - base) for name, figures in of_row.items() if name != "direct"]
    return [(name, value) for name, value in found if math.isfinite(value) and value > 0]


def _panel(title: str, values: list[tuple[str, float]], y: int) -> str:
    low = min(value for _, value in values) / 2
    scale = (WIDTH - LABEL - 90) / math.log(max(value for _, value in values) / low)
    lines = [f'<text x="8" y="{y + 20}" font-weight="bold" fill="{_INK}">{escape(title)}</text>']
    for place, (name, value) in enumerate(values):
        top = y + TOP + place * (BAR + GAP)
        length = max(1.0, scale * math.log(value / low))
        ink = _OURS if name.startswith("doublebuffer") else _OTHERS
        lines.append(
            f'<text x="{LABEL - 8}" y="{top + 13}" text-anchor="end" fill="{_INK}">{escape(name)}</text>'
            f'<rect x="{LABEL}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2" fill="{ink}"/>'
            f'<text x="{LABEL + length + 6:.1f}" y="{top + 13}" fill="{_MUTED}">{value:,.3g}</text>'
        )
    return "".join(lines)
