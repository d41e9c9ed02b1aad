"""Entries of streams, as a read gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from buffer.wire import Command

Entry = tuple[str, dict[bytes, bytes]]
"""A stream entry: its id, its fields."""


def trims_of(processed: Mapping[str, str]) -> list[Command]:
    """Drops entries up to the given one of each stream. An id is an instant and a number."""
    places = {key: id.partition("-") for key, id in processed.items()}
    return [("XTRIM", key, "MINID", f"{at}-{int(number) + 1}") for key, (at, _, number) in places.items()]


def entries_of(reply: Any) -> list[tuple[str, list[Entry]]]:
    return [
        (key.decode(), [(id.decode(), fields or {}) for id, fields in entries])
        for key, entries in reply or ()
        if entries
    ]
