"""The keys of a store as they were some time ago, to go back to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tests.properties.server import Server

MOST_US = 20_000_000


@dataclass
class Snapshot:
    at_us: int
    keys: dict[str, tuple[int, bytes]]
    """Name → lifetime in ms (0: none), and what DUMP gives."""
    ends: dict[tuple[str, str], int]


class Snapshots:
    """Of the last 20 s."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._taken: deque[Snapshot] = deque()

    def take(self, at_us: int, ends: dict[tuple[str, str], int]) -> None:
        names = self._server.names()
        lives = self._server.ask([("PTTL", name) for name in names])
        dumps = self._server.ask([("DUMP", name) for name in names])
        kept = {name: (max(0, ms), dump) for name, ms, dump in zip(names, lives, dumps, strict=True)}
        self._taken.append(Snapshot(at_us, kept, dict(ends)))
        while self._taken[0].at_us < at_us - MOST_US:
            self._taken.popleft()

    def some(self, age_us: int) -> Snapshot | None:
        """The youngest that is at least so old, or the oldest."""
        if not self._taken:
            return None
        old = [one for one in self._taken if one.at_us <= self._taken[-1].at_us - age_us]
        return old[-1] if old else self._taken[0]

    def back_to(self, snapshot: Snapshot) -> None:
        """What came since is forgotten, here too."""
        self._server.empty()
        self._server.ask([("RESTORE", name, ms, dump) for name, (ms, dump) in snapshot.keys.items()])
        while self._taken and self._taken[-1].at_us > snapshot.at_us:
            self._taken.pop()

    def forget(self) -> None:
        self._taken.clear()
