"""What engines say, on a terminal: letters alone, and no line of its own."""

from __future__ import annotations

import logging

from doublebuffer.doctor_report import wrong
from doublebuffer.logs import TextLine

EVIL = "a\x1b]0;title\x07\x1b[31m\n2026-01-01 INFO forged\u202e"


def tame(text: str) -> bool:
    return text.isprintable() and "forged" in text


def test_a_finding_of_doctor_has_one_line_for_what_is_and_one_for_what_to_do() -> None:
    first, second = str(wrong(f"back end {EVIL}", EVIL, EVIL)).split("\n")
    assert tame(first)
    assert tame(second)


def test_a_log_line_stays_one() -> None:
    record = logging.LogRecord("doublebuffer.worker", logging.WARNING, "", 0, "back end b is down: %s", (EVIL,), None)
    assert tame(TextLine("%(levelname)s %(name)s: %(message)s").format(record))
