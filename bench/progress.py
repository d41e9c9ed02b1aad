"""How far it is: a bar on a terminal, lines elsewhere. On standard error, so that the table can be piped."""

from __future__ import annotations

import math
import shutil
import sys
import time
from typing import TextIO

from bench.asking import Answer
from bench.rounds import Watch
from bench.rows import Run, Way

WIDTH = 30
EVERY_S = 0.1
NAMES = {"direct": "direct", "gateway": "through the gateway"}


class Progress(Watch):
    """``total``: requests of all rounds, both ways."""

    def __init__(self, total: int, rounds: int, *, to: TextIO | None = None) -> None:
        self._total = total
        self._rounds = rounds
        self._to = to if to is not None else sys.stderr
        self._bar = self._to.isatty()
        self._ended = 0
        self._title = ""
        self._drawn_at = -math.inf
        self._began_at = time.monotonic()

    def begins(self, way: Way, round: int) -> None:
        self._title = f"round {round} of {self._rounds}, {NAMES[way]}"
        if self._bar:
            self._draw()

    def ended(self, answer: Answer) -> None:
        self._ended += 1
        if self._bar and time.monotonic() - self._drawn_at >= EVERY_S:
            self._draw()

    def done(self, run: Run) -> None:
        answered = sum(answer.outcome == "answered" for answer in run.answers)
        self._line(f"{self._title}: {answered} of {len(run.answers)} answered in {run.span_s:.1f} s")

    def say(self, text: str) -> None:
        """A line of its own."""
        self._line(text)

    def _line(self, text: str) -> None:
        self._clear()
        print(text, file=self._to, flush=True)

    def _clear(self) -> None:
        if self._bar:
            self._to.write("\r\x1b[K")

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        share = self._ended / self._total if self._total else 1.0
        filled = round(share * WIDTH)
        took_s = self._drawn_at - self._began_at
        left = f", {took_s / share - took_s:.0f} s left" if self._ended else ""
        text = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {self._ended}/{self._total}  {self._title}{left}"
        self._to.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
        self._to.flush()
