"""Frames: what an inbox carries. Scripts write plain fields, one part a frame, with the events that came before an end;
a worker packs the parts of one turn of its loop. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from buffer.embed import Vector
from buffer.job import Content, Event, Logprobs, Reasoning, ToolDelta, decode_events


class Part(Struct, array_like=True, gc=False):
    """A piece of one job's answer on its way. ``n`` = number of its first event, or of the mark."""

    id: str
    fence: int
    n: int
    kind: str = "ev"
    """``ev``, ``start``, ``again``, ``lost``, or an end's kind."""
    events: list[Event] = []
    data: str = ""
    """``start``: fingerprint of the text it goes on from, a blank, the back end. ``again``: the text. An end: its
    JSON.
    """


def weight(event: Event) -> int:
    """Roughly the bytes that an event takes while it waits to be sent or read."""
    match event:
        case Content() | Reasoning():
            return 32 + len(event.text)
        case ToolDelta():
            return 32 + len(event.arguments)
        case Logprobs():
            return 32 + len(event.json)
        case Vector():
            return 32 + len(event.data)
        case _:
            return 32


def weights(events: Sequence[Event]) -> int:
    """The same of several."""
    size = 32 * len(events)
    for event in events:
        size += len(event.text) if type(event) is Content else weight(event) - 32
    return size


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Part])


def pack(parts: Sequence[Part]) -> bytes:
    return _encoder.encode(parts)


def unpack(fields: Mapping[bytes, bytes]) -> list[Part]:
    """The parts of an inbox entry; none for an entry that is no frame. Raises ``msgspec.DecodeError`` or
    ``ValueError`` on a broken one.
    """
    blob = fields.get(b"p")
    if blob is not None:
        return _decoder.decode(blob)
    id = fields.get(b"id")
    if id is None:
        return []
    told = Part(
        id.decode(),
        int(fields[b"f"]),
        int(fields[b"n"]),
        fields[b"k"].decode(),
        [],
        fields.get(b"d", b"").decode(),
    )
    events = fields.get(b"e")
    if events is None:
        return [told]
    return [Part(told.id, told.fence, int(fields[b"m"]), "ev", decode_events(events)), told]
