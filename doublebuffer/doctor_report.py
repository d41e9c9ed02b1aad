"""What ``doublebuffer doctor`` says: one finding after the other, for a person or as JSON."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from doublebuffer.top_paper import plain

Level = Literal["fine", "note", "wrong"]
_MARKS = {"fine": "✓", "note": "•", "wrong": "✗"}


class Finding(Struct, frozen=True, omit_defaults=True):
    """One line of the report: what is so, and what to do about it; nothing where all is well."""

    topic: str
    text: str
    remedy: str = ""
    level: Level = "fine"

    def __str__(self) -> str:
        line = plain(f"{_MARKS[self.level]} {self.topic}: {self.text}")
        return f"{line}\n  → {plain(self.remedy)}" if self.remedy else line


class Report(Struct, frozen=True):
    """All of it, as ``--json`` prints it."""

    healthy: bool
    findings: list[Finding]


def fine(topic: str, text: str) -> Finding:
    return Finding(topic, text)


def note(topic: str, text: str, remedy: str) -> Finding:
    """Worth knowing; nothing is broken by it."""
    return Finding(topic, text, remedy, "note")


def wrong(topic: str, text: str, remedy: str) -> Finding:
    return Finding(topic, text, remedy, "wrong")
