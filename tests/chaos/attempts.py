"""What the engines wrote down of their attempts, put together by chat."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Tried:
    """One attempt at an engine."""

    backend: str
    began_at: float
    said: int
    """Characters that it went on from."""
    misled: bool = False
    """Those were not the answer's first."""
    spoke: bool = False
    """A piece of the answer went out."""
    how: str = "died"
    """How it ended: ``done``, ``left`` (its worker closed the connection), as the engine was told, or with its
    process."""
    ended_at: float = 0.0

    @property
    def broken(self) -> bool:
        return self.spoke and self.how != "done"


def most_at_once(attempts: Mapping[str, Sequence[Tried]]) -> int:
    """At one back end; of those that died with it, nobody knows until when."""
    most = 0
    everything = [tried for some in attempts.values() for tried in some if tried.how != "died"]
    for backend in {tried.backend for tried in everything}:
        own = [tried for tried in everything if tried.backend == backend]
        steps = sorted([(tried.began_at, 1) for tried in own] + [(tried.ended_at, -1) for tried in own])
        most = max(most, *itertools.accumulate(step for _, step in steps))
    return most


def read_attempts(path: Path) -> Mapping[str, list[Tried]]:
    """Marker → attempts, in order of their beginning."""
    found: dict[str, list[Tried]] = defaultdict(list)
    open_ones: dict[tuple[int, int], Tried] = {}
    for row in path.read_text(encoding="utf-8").splitlines():
        told = json.loads(row)
        key = (told["process"], told["attempt"])
        match told["what"]:
            case "began":
                tried = Tried(told["backend"], told["at"], told["said"], told["misled"])
                open_ones[key] = tried
                found[told["marker"]].append(tried)
            case "first":
                open_ones[key].spoke = True
            case how:
                tried = open_ones.pop(key)
                tried.how, tried.ended_at = how, told["at"]
    return found
