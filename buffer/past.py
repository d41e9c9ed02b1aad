"""What a gateway knows of a job that its store has lost. Pure."""

from __future__ import annotations

from msgspec import Struct

from buffer.records import NewJob


class Past(Struct, frozen=True, kw_only=True):
    """A job as it was, to be put into the store once more."""

    job: NewJob
    age_us: int
    """How long ago it was first submitted, by its gateway's clock: it keeps its place."""
    floor: int = 0
    """The fence that its gateway knows; a record that knows a higher one is left alone. 0: it was never taken."""
    said: str = ""
    """The answer so far, by ``encode_said``,"""
    base: str = ""
    """and its fingerprint."""
    spent: int = 0
    """Tokens of it."""
    have: int = 0
    """Number of the last event that came under ``floor``."""
    backend: str = ""
    """Where it ran; empty: not known."""
    waiting: bool = True
    """Nobody was at it. Else whoever was, under ``floor``, has a lease long to take it over as it is."""
    tries: int = 0
    """How often a worker took it,"""
    started_ago_us: int = 0
    """how long ago one did first, where it is not 0 times,"""
    first_ago_us: int | None = None
    """and how long ago its first word came; None: none has."""
