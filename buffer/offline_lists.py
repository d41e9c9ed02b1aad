"""Ids in the order of time, and lists of what they stand for."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from buffer.access import Command, Store

_AT_ONCE = 100


def new_id(kind: str) -> str:
    """A new id that begins with ``kind``: the later it came, the greater it is, and nobody guesses it."""
    return f"{kind}{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"


async def ask(store: Store, *commands: Command) -> list[Any]:
    """What the store says to these. Raises ``StoreUnavailable``."""
    found = await store.exchange(commands)
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


async def walk(
    store: Store, key: str, name: Callable[[str], str], read: Command, after: str, *, oldest_first: bool = False
) -> AsyncIterator[Any]:
    """What ``read`` gives of each that the list at ``key`` has behind ``after``, newest first; ``name``: of an id's own
    key. What is there no more is skipped, and leaves the list.
    """
    place = f"({after}" if after else "-" if oldest_first else "+"
    while True:
        ranged: Command
        if oldest_first:
            ranged = ("ZRANGEBYLEX", key, place, "+", "LIMIT", 0, _AT_ONCE)
        else:
            ranged = ("ZREVRANGEBYLEX", key, place, "-", "LIMIT", 0, _AT_ONCE)
        (found,) = await ask(store, ranged)
        ids = [id.decode() for id in found]
        if not ids:
            return
        values = await ask(store, *((read[0], name(id), *read[1:]) for id in ids))
        gone = [id for id, value in zip(ids, values, strict=True) if not value]
        if gone:
            await ask(store, ("ZREM", key, *gone))
        for value in values:
            if value:
                yield value
        if len(ids) < _AT_ONCE:
            return
        place = f"({ids[-1]}"
