"""How everything stands at one moment: lanes, back ends, workers, dead letters. For those who look on. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

EngineState = Literal["up", "open", "trial", "down", "spare", "starting"]
"""``open``: its breaker keeps jobs away; ``trial``: one job tries it; ``spare``: it is started when it is needed."""
REF_CHARS = 12
"""Jobs are told of by so much of their ids: with a whole one and its owner's address, its answer could be had."""


class LaneView(Struct, kw_only=True):
    name: str
    waiting: int = 0
    oldest_s: float = 0.0
    """How long the longest has waited; 0 for an empty lane."""
    running: int = 0


class QueueView(Struct, kw_only=True):
    """People's jobs that wait for a model."""

    model: str
    waiting: int
    engines: list[str]
    """Those that serve it."""


class EngineView(Struct, kw_only=True):
    """A back end, as the worker saw it that looked last, and what it carries over all workers."""

    name: str
    kind: str
    pool: str
    state: EngineState
    error: str
    """Why it is down."""
    jobs: int
    limit: int
    """Jobs that it may have now; 0: not told."""
    kv: int
    kv_tokens: int
    """Tokens of memory, claimed and there; 0: not told."""
    reading: int
    """Prompt tokens that were sent to it and not read yet, of lanes but the fast ones."""
    models: list[str]
    model_count: int
    loaded: list[str]
    fallback_for: list[str]
    simulated: bool


class WorkerView(Struct, kw_only=True):
    id: str
    age_s: float
    backends: list[str]
    draining: bool


class JobView(Struct, kw_only=True):
    """A job under way."""

    ref: str
    lane: str
    engine: str
    age_s: float
    """Since its request came."""


class LetterView(Struct, kw_only=True):
    ref: str
    at: float
    """Seconds since 1970."""
    lane: str
    model: str
    reason: str


class Overview(Struct, kw_only=True):
    at: float
    """When it was read, in seconds since 1970."""
    lanes: list[LaneView]
    """In order of preference; embeddings, which have none, come last."""
    engines: list[EngineView] = []
    queues: list[QueueView] = []
    """For which models most wait, the longest first."""
    workers: list[WorkerView] = []
    dead: int = 0
    letters: list[LetterView] = []
    """The newest first."""
    under_way: list[JobView] = []
    """The oldest first."""
    refs: dict[str, str] = {}
    """What jobs are told of by → their ids."""

    @property
    def running(self) -> int:
        return sum(lane.running for lane in self.lanes)
