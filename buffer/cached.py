"""An answer as it is kept for whoever asks the same: which may be, and in what form. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from buffer.job import Content, End, Event, Finish, Lane, Logprobs, Origin, Usage

MOST_BYTES = 262_144
"""Of one answer's words and probabilities; larger ones are not kept."""
_PIECES = 32
"""An answer is told again in about so many pieces,"""
_LEAST_CHARS = 16
"""none of them much shorter than so, unless the engine cut it so."""


class Cached(Struct, array_like=True):
    """A whole answer. It holds no thinking and no tool calls."""

    lane: Lane
    """The one in which it was made."""
    events: list[Event]


encode_cached: Callable[[Cached], bytes] = msgspec.msgpack.Encoder().encode
decode_cached: Callable[[bytes], Cached] = msgspec.msgpack.Decoder(Cached).decode
"""Raises ``msgspec.DecodeError``."""


class Recording:
    """What comes of an answer, for as long as it may be kept. ``n``: how many choices it has."""

    __slots__ = ("_bytes", "_events", "_n", "_spoilt", "_stopped", "_worded")

    def __init__(self, n: int) -> None:
        self._n = n
        self._events: list[Event] = []
        self._bytes = 0
        self._stopped: set[int] = set()
        self._spoilt = False
        self._worded = False

    def add(self, events: Iterable[Event]) -> None:
        """What came next."""
        if self._spoilt:
            return
        for event in events:
            kind = type(event)
            if kind is Content:
                assert isinstance(event, Content)
                self._bytes += len(event.text)
                self._worded = self._worded or event.text != ""
            elif isinstance(event, Logprobs):
                self._bytes += len(event.json)
            elif isinstance(event, Finish):
                self._stopped.add(event.index)
                self._spoilt = self._spoilt or event.reason != "stop"
            elif isinstance(event, Usage):
                self._spoilt = self._spoilt or bool(event.reasoning)
            elif not isinstance(event, Origin):
                # Thinking, a tool call.
                self._spoilt = True
            self._events.append(event)
        if self._bytes > MOST_BYTES:
            self._spoilt = True
        if self._spoilt:
            self._events.clear()

    def kept(self, end: End, lane: Lane) -> bytes:
        """The answer as it is kept, once it has ended; empty where it may not be."""
        whole = end.kind == "done" and self._worded and self._stopped == set(range(self._n))
        if self._spoilt or not whole:
            return b""
        data = encode_cached(Cached(lane, _in_pieces(self._events)))
        return data if len(data) <= 2 * MOST_BYTES else b""


def _in_pieces(events: list[Event]) -> list[Event]:
    """The same answer in fewer pieces: an engine sends a token at a time. Where the engine's clock counts is left out,
    since it tells of the answer as it was made.
    """
    chars = sum(len(event.text) for event in events if isinstance(event, Content))
    most = max(_LEAST_CHARS, chars // _PIECES)
    kept: list[Event] = []
    origin: Origin | None = None
    usage: Usage | None = None
    texts: list[str] = []
    index = length = 0
    for event in events:
        if isinstance(event, Content):
            if texts and (event.index != index or length >= most):
                kept.append(Content("".join(texts), index))
                texts, length = [], 0
            index = event.index
            texts.append(event.text)
            length += len(event.text)
        elif isinstance(event, Usage):
            usage = event
        elif isinstance(event, Origin):
            origin = origin or event
        else:
            if texts:
                kept.append(Content("".join(texts), index))
                texts, length = [], 0
            kept.append(event)
    if texts:
        kept.append(Content("".join(texts), index))
    if origin is not None:
        kept.insert(0, origin)
    if usage is not None:
        kept.append(Usage(usage.prompt, usage.completion, usage.cached))
    return kept
