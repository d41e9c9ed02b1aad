"""What is known of the memory of an engine that loads another model in place of the one that it has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Memory:
    """What a worker's last look found there."""

    queues: list[str]
    """Queue names of the models."""
    age_us: int
    """How long ago."""
