"""How a spare stands, as workers note it for one another in the store."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from policy.spares import Stand

NOTE_S = 5.0
"""How often it is noted that a spare has work."""


class _Noted(msgspec.Struct, omit_defaults=True):
    """A ``Stand`` in the store."""

    phase: str = "stopped"
    since_at: float = 0.0
    tries: int = 0
    again_at: float = 0.0
    busy_at: float = 0.0
    seen_at: float = 0.0
    error: str = ""


def differs(stand: Stand, noted: Stand) -> bool:
    """Whether there is news of a spare that others have to know."""
    if stand.busy_at - noted.busy_at > NOTE_S:
        return True
    return replace(stand, busy_at=0.0, seen_at=0.0) != replace(noted, busy_at=0.0, seen_at=0.0)


def later(noted: Stand, known: Stand) -> Stand:
    """What was noted, with the newer instants of what somebody knows."""
    busy_at, seen_at = max(noted.busy_at, known.busy_at), max(noted.seen_at, known.seen_at)
    return replace(noted, busy_at=busy_at, seen_at=seen_at)


def written(stand: Stand) -> bytes:
    return msgspec.json.encode(msgspec.convert(stand, _Noted, from_attributes=True))


def read(noted: bytes) -> Stand:
    """Nothing, or what another version wrote: it is taken to be stopped, which its next look mends."""
    try:
        found = msgspec.json.decode(noted, type=_Noted) if noted else _Noted()
        return msgspec.convert(found, Stand, from_attributes=True)
    except msgspec.MsgspecError:
        return Stand()
