"""Embeddings inside: the request in its job's hash, and a vector on its way. Pure.

They wait in a pool of their own beside the chats' (``pool_of``): the same queues, leases and ends, and no place taken
from a chat.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

if TYPE_CHECKING:
    OptionalRaw = Raw | None
else:
    # In a union msgspec takes nothing raw. As defaults are not checked, the field may be None all the same.
    OptionalRaw = Raw

FLOAT_BYTES = 4
"""A vector's numbers travel as little-endian float32."""


class Vector(Struct, tag="v", array_like=True):
    """The answer to one input."""

    index: int
    """Which of the request's inputs, from 0."""
    data: bytes
    """Little-endian float32."""


Input = str | list[int]
"""A text, or its token ids."""


class Embed(Struct, omit_defaults=True):
    """A request for embeddings in the one form inside. Those that differ in ``inputs`` alone may be asked together."""

    model: str
    """The name that the client used; answers carry it back."""
    inputs: list[Input]
    truncate: bool | None = None
    """What is to become of an input that is too long: cut, refused, or what the engine does by itself (None)."""
    dimensions: int | None = None
    """A length that the engine has to be asked for. Where cutting a vector is all that is wanted, nobody asks."""
    raw: bool = False
    """Vectors as the model gives them, not brought to length 1 where the engine can be asked for that."""
    keep_alive: OptionalRaw = None
    """As in a ``Chat``; only Ollama back ends are told."""
    options: dict[str, Raw] = {}
    """Ollama's options, for Ollama back ends."""
    extra: dict[str, Raw] = {}
    """Top-level fields beyond the above, for OpenAI-like back ends."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Embed)


def encode_embed(embed: Embed) -> bytes:
    return _encoder.encode(embed)


def decode_embed(body: bytes) -> Embed:
    """Raises ``msgspec.DecodeError`` on a body that is none."""
    return _decoder.decode(body)


def packed(values: Iterable[float]) -> bytes:
    """Numbers as a vector's bytes."""
    found = array("f", values)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


def numbers(data: bytes) -> array[float]:
    """A vector's bytes as numbers."""
    found = array("f", data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def pool_of(pool: str) -> str:
    """The name of the pool in which the embeddings of a pool of back ends wait. No configured pool is called so."""
    return f"{pool}/embed"


def length_of(input: Input) -> int:
    """What an input weighs beside others: bytes of a text, or token ids counted at four bytes each."""
    return len(input.encode("utf-8", "replace")) if isinstance(input, str) else 4 * len(input)
