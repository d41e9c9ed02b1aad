"""What goes into the engine and what comes out. Seconds on the caller's clock, lengths in tokens."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

Phase = Literal["arriving", "waiting", "reading", "writing", "finished", "cancelled"]


class RefusedError(Exception):
    """The engine takes the request not at all. ``too_long``: more than its context. ``busy``: its queue is full."""

    def __init__(self, reason: Literal["too_long", "busy"]) -> None:
        super().__init__(reason)
        self.reason: Literal["too_long", "busy"] = reason


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the engine."""

    id: Hashable
    prompt_tokens: int
    output_tokens: int
    """Tokens that the model would write; at least one is."""
    model: str = ""
    blocks: Sequence[int] = ()
    """Chain of hashes of the prompt's full blocks, for the prefix cache. Empty: shares nothing."""
    num_ctx: int = 0
    """Ollama: the context that the model is to be loaded with; 0 is the profile's."""


class Running:
    """A request inside the engine. Read its fields, change none."""

    __slots__ = (
        "admitted_at",
        "arrived_at",
        "base",
        "cached",
        "cut",
        "done",
        "due",
        "forgotten",
        "output",
        "phase",
        "pinned",
        "prompt",
        "ready_at",
        "request",
        "slot",
        "start",
        "target",
    )

    def __init__(self, request: Request, now: float, ready_at: float) -> None:
        self.request = request
        self.phase: Phase = "arriving"
        self.arrived_at = now
        self.ready_at = ready_at
        self.admitted_at = math.nan
        """When it was first given a slot; NaN before."""
        self.prompt = request.prompt_tokens
        """Tokens of the prompt after any cut."""
        self.output = max(1, request.output_tokens)
        """Tokens that it will write at most, after any cut."""
        self.cut = False
        """The context's end cuts the answer short."""
        self.cached = 0
        """Prompt tokens that it found in the prefix cache when first admitted."""
        self.target = self.prompt
        """Tokens to read before it writes (on): the prompt, and after a preemption what it had written."""
        self.done = 0
        self.base = 0
        """Tokens that it had written before this reading."""
        self.start = 0
        """The decode clock at its first token since this reading."""
        self.due = 0
        """The decode clock at its last token."""
        self.pinned = 0
        """Blocks of the prefix cache that it uses."""
        self.forgotten = 0
        """Tokens that context shifting has thrown out of its context."""
        self.slot = -1


@dataclass(slots=True)
class Step:
    """One step, or several plain decode steps in a row. All it tells of has happened when ``duration_s`` is over."""

    duration_s: float
    count: int
    first: list[Running]
    """Sequences that got their first token."""
    finished: list[Running]
    loading: bool = False
    """No step but the loading of a model."""
