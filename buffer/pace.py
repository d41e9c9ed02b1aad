"""When the tokens of an answer came and the pieces of its prompt were read, in few numbers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

MOST_POINTS = 64
"""Of tokens and pieces together."""
_MOST_PIECES = 16

Point = tuple[int, int]
"""Milliseconds since the job was granted, and tokens until then."""

_encode: Callable[[tuple[int, list[int], list[int]]], bytes] = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], tuple[int, list[int], list[int]]] = msgspec.msgpack.Decoder(
    tuple[int, list[int], list[int]]
).decode


class Pace:
    """Of one attempt, which began at ``granted_us`` of the store's clock."""

    __slots__ = ("_due_ms", "_every_ms", "_granted_us", "_last", "_pieces", "_points")

    def __init__(self, granted_us: int) -> None:
        self._granted_us = granted_us
        self._points: list[Point] = []
        self._pieces: list[Point] = []
        self._every_ms = self._due_ms = 0
        self._last: Point | None = None

    def tokens(self, passed_s: float, tokens: int) -> None:
        """So many of the answer have come by now, earlier attempts' included."""
        passed_ms = int(passed_s * 1000)
        self._last = (passed_ms, tokens)
        if passed_ms >= self._due_ms:
            self._note()

    def piece(self, passed_s: float, tokens: int) -> None:
        """So many of the prompt have been read by now."""
        self._pieces.append((int(passed_s * 1000), tokens))
        if len(self._pieces) > _MOST_PIECES:
            # The first stays, and the newest.
            self._pieces = [*self._pieces[:-1:2], self._pieces[-1]]

    def _note(self) -> None:
        assert self._last is not None
        points = self._points
        points.append(self._last)
        if len(points) >= MOST_POINTS - _MOST_PIECES:
            self._every_ms = max(1, 2 * (points[-1][0] - points[0][0]) // len(points))
            del points[1::2]
        self._due_ms = self._last[0] + self._every_ms

    def encoded(self) -> bytes:
        """For the job's record; empty: there is nothing to tell."""
        if self._last is None and not self._pieces:
            return b""
        if self._last is not None and self._points[-1] != self._last:
            self._points.append(self._last)
        return _encode((self._granted_us, _differences(self._pieces), _differences(self._points)))


class Paced(msgspec.Struct):
    """Instants in microseconds of the store's clock, and tokens until then."""

    pieces: list[tuple[int, int]]
    tokens: list[tuple[int, int]]


def read_pace(encoded: bytes) -> Paced:
    """What ``Pace.encoded`` told. Raises ``msgspec.DecodeError``."""
    if not encoded:
        return Paced([], [])
    granted_us, pieces, points = _decode(encoded)
    return Paced(_instants(granted_us, pieces), _instants(granted_us, points))


def _differences(points: Sequence[Point]) -> list[int]:
    flat: list[int] = []
    before = (0, 0)
    for point in points:
        flat += (point[0] - before[0], point[1] - before[1])
        before = point
    return flat


def _instants(granted_us: int, flat: Sequence[int]) -> list[tuple[int, int]]:
    passed_ms, tokens = accumulate(flat[::2]), accumulate(flat[1::2])
    return [(granted_us + 1000 * ms, count) for ms, count in zip(passed_ms, tokens, strict=False)]
