"""What Ollama's answers are put together from: how lines begin and end, and the figures of the last one."""

from __future__ import annotations

from typing import NamedTuple

from buffer.job import Usage
from gateway.dialects.text import dump, instant, quote

_NS = 1_000_000_000


class Shape(NamedTuple):
    """Where the answer's text stands in a line."""

    head: bytes
    """What comes between a line's instant and the quoted text."""
    close: bytes
    """What comes after the text and what belongs to it."""
    tail: bytes = b""
    """Members of the last line, after the figures."""


CHAT = Shape(b'"message":{"role":"assistant","content":', b"}")


class Clock:
    """When things happened, for an answer's figures. Instants in seconds since 1970."""

    __slots__ = ("created", "first", "last")

    def __init__(self, created: float) -> None:
        self.created = created
        self.first = 0.0
        self.last = 0.0

    def tick(self, now: float) -> None:
        self.first = self.first or now
        self.last = now

    def figures(self, now: float, queued_s: float, usage: Usage | None, pieces: int) -> bytes:
        """The members of an object's end: whole nanoseconds, as the engine counted them or else as seen from here."""
        told = usage or Usage(0, pieces)
        # By the store's clock, which is not quite this one's: no answer begins before its turn came.
        queued_s = min(queued_s, (self.first or now) - self.created)
        started = self.created + queued_s
        prompt_ns, eval_ns = told.prompt_ns, told.completion_ns
        if prompt_ns is None:
            prompt_ns = _ns(self.first - started) - (told.load_ns or 0) if self.first else 0
        if eval_ns is None:
            eval_ns = _ns(self.last - self.first)
        return dump(
            {
                "total_duration": _ns(now - self.created),
                "load_duration": _ns(queued_s) + max(told.load_ns or 0, 0),
                "prompt_eval_count": told.prompt,
                "prompt_eval_duration": max(prompt_ns, 0),
                "eval_count": told.completion,
                # Pages divide by it.
                "eval_duration": max(eval_ns, 1 if told.completion else 0),
            }
        )[1:-1]


def _ns(seconds: float) -> int:
    return max(round(seconds * _NS), 0)


class Line:
    """How an answer's lines begin."""

    __slots__ = ("_head", "_model")

    def __init__(self, model: str, shape: Shape) -> None:
        self._model = b'{"model":' + quote(model) + b',"created_at":"'
        self._head = b'",' + shape.head

    def __call__(self, now: float) -> bytes:
        return self._model + instant(now).encode() + self._head
