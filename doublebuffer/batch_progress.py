"""How far a batch is: a bar on a terminal, a line each tenth elsewhere. On standard error."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Self, TextIO

WIDTH = 30


class Bar:
    """To be entered; what it drew is gone when it is left."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to if to is not None else sys.stderr
        self._drawn = self._to.isatty()
        self._told = ""
        self._began: tuple[float, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._drawn:
            self._to.write("\r\x1b[K")
            self._to.flush()

    def show(self, status: str, completed: int, failed: int, total: int) -> None:
        """As it stands."""
        done = completed + failed
        title = status.replace("_", " ")
        if not self._drawn:
            told = f"{title}: {10 * (10 * done // total)} %" if total else title
            if told != self._told:
                self._told = told
                print(told, file=self._to, flush=True)
            return
        filled = round(WIDTH * done / total) if total else 0
        text = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total}  {title}"
        text += f", {failed} failed" if failed else ""
        text += self._left(done, total)
        self._to.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
        self._to.flush()

    def say(self, sentence: str) -> None:
        """A line above the bar."""
        self._to.write(("\r\x1b[K" if self._drawn else "") + sentence + "\n")
        self._to.flush()

    def _left(self, done: int, total: int) -> str:
        """By the pace since it was first looked at."""
        now = time.monotonic()
        if self._began is None:
            self._began = now, done
        began_at, before = self._began
        if done <= before:
            return ""
        left_s = round((total - done) * (now - began_at) / (done - before))
        return f", {left_s // 60} min left" if left_s >= 120 else f", {left_s} s left"
