"""What a worker has to say of an attempt, as the scripts take it, and what they answer."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Last(NamedTuple):
    """What an attempt said last, and goes with its end. ``first``: number of the first event that the reply key lacks,
    ``lacks``: of the first that its gateway does; 0: none. ``rest``: those; empty: the same as ``events``.
    """

    first: int = 0
    events: bytes = b""
    lacks: int = 0
    rest: bytes = b""


NOTHING_LAST = Last()


class Chunk(NamedTuple):
    """Events ``n0`` to ``n`` of one attempt, encoded, for its reply key."""

    id: str
    fence: int
    n0: int
    n: int
    events: bytes


AppendResult = int | Literal["lost", "orphan"]
"""The number of the last event in the reply key: below the chunk's ``n0 - 1``, send from there; at or above its ``n``,
it is there.
"""

SettleResult = Literal["ok", "done", "lost", "orphan", "gone"] | int
"""``done``: it had been settled under this fence. ``orphan``: as ``Renewed``; ``gone``: the same of a job that was to
be dropped. A number: the reply key has only so many events; append the rest first.
"""
