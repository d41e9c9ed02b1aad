"""Which inputs of which requests go to the engine in one call, and whose tokens they were. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from buffer.embed import Embed, Input, encode_embed, length_of

MOST_INPUTS = 256
"""Inputs of one call."""
MOST_BYTES = 256 * 1024
"""Of text in one call, unless a single input has more: a call is as slow as all of it."""
MOST_AGAIN = 16
"""Inputs of one call of requests that have failed before: one of them may be what fails the rest."""

Owner = TypeVar("Owner")


@dataclass(slots=True)
class Request(Generic[Owner]):
    """A request as it waits to be asked."""

    owner: Owner
    embed: Embed
    queue: str
    fails: int = 0
    last: bool = False
    """Its last attempt: it goes alone, so that at last nobody else's fault can be its end."""


@dataclass(slots=True)
class Item(Generic[Owner]):
    """One input of a request."""

    owner: Owner
    index: int
    input: Input


@dataclass(slots=True, eq=False)
class Call(Generic[Owner]):
    """Inputs that are asked for together. ``form`` is what their requests have in common."""

    form: Embed
    queue: str
    items: list[Item[Owner]] = field(default_factory=list)
    bytes: int = 0

    def owners(self) -> list[Owner]:
        """Each once, in order."""
        return list({id(item.owner): item.owner for item in self.items}.values())


def plan_calls(requests: Sequence[Request[Owner]]) -> list[Call[Owner]]:
    """The calls for these requests, in their order. A request of many inputs may take several, shared with others."""
    calls: list[Call[Owner]] = []
    open_calls: dict[object, Call[Owner]] = {}
    for number, request in enumerate(requests):
        form = msgspec.structs.replace(request.embed, inputs=[], model="")
        texts = all(isinstance(asked, str) for asked in request.embed.inputs)
        alone = number if request.fails and request.last else -1
        key = (request.queue, encode_embed(form), texts, request.fails, alone)
        most = MOST_AGAIN if request.fails else MOST_INPUTS
        for index, asked in enumerate(request.embed.inputs):
            size = length_of(asked)
            call = open_calls.get(key)
            if call is None or len(call.items) >= most or call.bytes + size > MOST_BYTES:
                call = open_calls[key] = Call(form, request.queue)
                calls.append(call)
            call.items.append(Item(request.owner, index, asked))
            call.bytes += size
    return calls


def shares(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in whole parts by weight; they add up to it. Engines count the tokens of a call, not of each input."""
    whole = sum(weights)
    if whole <= 0:
        weights, whole = [1] * len(weights), max(len(weights), 1)
    parts = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda place: total * weights[place] % whole, reverse=True)
    for place in order[: total - sum(parts)]:
        parts[place] += 1
    return parts
