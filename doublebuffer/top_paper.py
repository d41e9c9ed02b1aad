"""What the frame of ``doublebuffer top`` is written on, and how words are made to fit. Pure."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

_CODES = {"accent": "36", "warn": "33", "bad": "31", "soft": "2", "strong": "1"}


@dataclass(frozen=True, slots=True)
class Paper:
    """``width`` and ``height`` in characters; ``height`` 0: as many lines as it takes. ``colours``: with ANSI's."""

    width: int
    height: int
    colours: bool

    def ink(self, text: str, *names: str) -> str:
        codes = ";".join(_CODES[name] for name in names if name)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colours and codes else text


def plain(text: str) -> str:
    """Without whatever a terminal would obey: names and reasons come from engines."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(char)[0] == "C" else char for char in text)


def columns(text: str) -> int:
    """How many it takes; some characters take two, some none."""
    return sum(map(_wide, plain(text)))


def fit(text: str, width: int) -> str:
    """Cut or filled to so many columns."""
    text = plain(text)
    if columns(text) > width:
        text = f"{_beginning(text, width - 1).rstrip()}…" if width else ""
    return text + " " * max(0, width - columns(text))


def wrap(text: str, width: int, most: int) -> list[str]:
    """In at most so many lines, broken between words where that can be; the last one is cut."""
    text = plain(text)
    lines: list[str] = []
    while columns(text) > width and len(lines) < most - 1:
        part = _beginning(text, width + 1).rpartition(" ")[0] or _beginning(text, width)
        lines.append(part)
        text = text[len(part) :].lstrip()
    return [*lines, fit(text, width).rstrip()]


def _wide(char: str) -> int:
    return 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _beginning(text: str, width: int) -> str:
    used = 0
    for place, char in enumerate(text):
        used += _wide(char)
        if used > width:
            return text[:place]
    return text


def bar(used: int, whole: int, width: int, paper: Paper) -> str:
    filled = min(width, -(-used * width // max(1, whole)))
    return paper.ink("█" * filled, "accent") + paper.ink("·" * (width - filled), "soft")


def short(value: float) -> str:
    if value < 1000:
        return f"{value:.1f}" if 0 < value < 9.95 and value % 1 else f"{value:.0f}"
    return f"{value / 1000:.{1 if value < 9950 else 0}f}k" if value < 999_500 else f"{value / 1e6:.1f}M"
