"""One back end as this worker knows it: whether jobs may go there, how many, and under which names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Literal

from backends.base import Backend, Probe
from buffer.backend import BackendSpec, ModelInfo
from buffer.load import SparePhase
from buffer.memory import Memory
from buffer.names import queue_names
from buffer.records import Limits
from policy.inflight import OverlapLimit, in_flight_limit
from worker.bounds import Bounds
from worker.breaker import Breaker
from worker.learning import Learning
from worker.stand_in import StandIn


class _Doubt(asyncio.Event):
    """An event that sets another with it."""

    def __init__(self, look: asyncio.Event) -> None:
        super().__init__()
        self._look = look

    def set(self) -> None:
        super().set()
        self._look.set()


class Engine:
    """What the probe finds and what chats do to it come together here; the drain asks before each pull."""

    def __init__(
        self,
        backend: Backend,
        *,
        breaker: Breaker,
        max_in_flight: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.backend = backend
        self.name = backend.spec.name
        self.breaker = breaker
        self.flow = in_flight_limit(backend.spec.kind, backend.spec.max_in_flight or max_in_flight)
        self.clock = clock
        self.wake = asyncio.Event()
        """Something changed for the drain: a job came in, a place became free, the back end is able again."""
        self.on_news: Callable[[], None] = lambda: None
        """Called when a look found the back end to be more able than before."""
        self.look = asyncio.Event()
        """Look at once."""
        self.doubt = _Doubt(self.look)
        """It refused a job: look at once, and send nothing meanwhile."""
        self.looked_at = False
        """A look has been answered, or was not."""
        self.stand_in = StandIn(backend.spec.fallback_for, clock) if backend.spec.fallback_for else None
        self.probe: Probe | None = None
        """What the last look found; None while it is down, or before the first."""
        self.error = "It has not been looked at yet."
        """One sentence: why it is down. Empty while it is up."""
        self.models: list[ModelInfo] = []
        """Of the last look that was answered."""
        self.running: set[str] = set()
        self.learning = Learning()
        self.quiet = False
        """The last pull had room left, and nobody waits: until somebody comes, a place more is worth no other."""
        self.short = False
        """Jobs wait that did not fit at the last pull: whatever frees credit is worth another."""
        self.spare: Literal[""] | SparePhase = "stopped" if backend.spec.spare else ""
        """How it stands, if it is started when it is needed;"""
        self.spare_error = ""
        """what went wrong with that last;"""
        self.closed = backend.spec.spare
        """and whether it takes nothing new: it is about to be stopped, or whoever decides has not said that it runs."""
        self._limit = 0
        self._within = Bounds(backend)
        self._loaded: frozenset[str] = frozenset()
        self._seen_at = 0.0
        self._upstream: dict[str, str] = {}
        self._learn([])

    @property
    def spec(self) -> BackendSpec:
        return self.backend.spec

    @property
    def up(self) -> bool:
        return self.probe is not None

    def looked(self, found: Probe) -> bool:
        """A look was answered. True: it was down before. An idle drain is woken only by what changes something for
        it."""
        news = self.probe is None
        again = news or self.doubt.is_set()
        self.looked_at = True
        before, queues = self._bounds(), list(self._upstream)
        self.probe, self.error, self.models = found, "", found.models
        self._loaded, self._seen_at = frozenset(found.loaded), self.clock()
        self.doubt.clear()
        self._learn([model.id for model in found.models])
        self.flow.looked(slots=found.slots, waiting=found.waiting, running=found.running)
        now = self._bounds()
        if again or now.slots > before.slots or now.kv > before.kv or list(self._upstream) != queues:
            self.wake.set()
            self.on_news()
        return news

    def lost(self, error: str) -> bool:
        """A look was not answered. True: nobody knew that it is down."""
        news = self.probe is not None or not self.looked_at
        self.looked_at = True
        self.probe, self.error = None, error
        self.doubt.clear()
        if news:
            # There may be half-read prompts.
            self.wake.set()
        return news

    def _learn(self, served: list[str]) -> None:
        upstream: dict[str, str] = {}
        for client, name in self.spec.models.items():
            for queue in queue_names(client):
                upstream[queue] = name
        for name in served:
            for queue in queue_names(name):
                upstream.setdefault(queue, name)
        self._upstream = upstream

    def upstream(self, queue: str) -> str | None:
        """The back end's own name for the model of a queue; None: it no longer has it."""
        return self._upstream.get(queue)

    @property
    def served(self) -> set[str]:
        """The back end's own names for all models that it serves, or is said to."""
        return set(self._upstream.values())

    def lists(self, queue: str) -> bool:
        """Whether the last look found the model of a queue there. Its operator may name others."""
        upstream = self._upstream.get(queue)
        return upstream is not None and any(queue_names(upstream) == queue_names(model.id) for model in self.models)

    def queues(self) -> list[str]:
        """Queues to take jobs from now; of a back end that stands in for others, those whose jobs none of these can
        take."""
        return [queue for queue in self._upstream if self.covers(queue)]

    def queues_of_others(self) -> list[str]:
        """Queues from which it may take only what one of the back ends that it stands in for has just failed."""
        return [] if self.stand_in is None else [queue for queue in self._upstream if not self.stand_in.covers(queue)]

    def covers(self, queue: str) -> bool:
        """Whether the jobs of this queue are its own, or nobody else's at the moment."""
        return self.stand_in is None or self.stand_in.covers(queue)

    @property
    def out_of_service(self) -> bool:
        """It is known to be down, or its breaker is not closed."""
        return self.looked_at and (not self.up or self.breaker.state(self.clock()) != "closed")

    @property
    def able(self) -> bool:
        """Whether jobs could go here, now or when a place is free."""
        return self.up and not self.closed and not self.doubt.is_set() and self.breaker.places(self.clock()) != 0

    def takes(self, queue: str, after: str) -> bool:
        """Whether a job of this queue could that the back end of the name ``after`` had and gave back."""
        if not self.able or queue not in self._upstream:
            return False
        return self.stand_in is None or after in self.stand_in.names or self.stand_in.covers(queue)

    def limits(self) -> Limits:
        """The bounds of the back end over all workers, as of now; for the drain, which is woken when they widen."""
        bounds = self._bounds()
        self._limit = bounds.slots
        return bounds

    @property
    def told_limit(self) -> int:
        """Jobs at a time, as others may rely on it: a trial that is under way is not counted."""
        return self.flow.jobs if isinstance(self.flow, OverlapLimit) else self._bounds().slots

    @property
    def in_turn(self) -> bool:
        """Whether it was seen to answer one job after the other, though it had two."""
        return isinstance(self.flow, OverlapLimit) and self.flow.in_turn

    def _bounds(self) -> Limits:
        jobs, rate = self.flow.limit(self.clock()), self.learning.slowest_prefill()
        return self._within.of(self.probe, jobs=jobs, rate=rate)

    def heeds(self, lane: str) -> bool:
        """Whether others may wait for a prompt of this lane to be read, and the store is to hear of it at once."""
        return self.short or (self.backend.splits and lane != "fast")

    def places(self, slots: int) -> int:
        """Jobs that this worker may take now, of ``slots`` in all; 0 while it is down, closing or the breaker open."""
        if self.probe is None or self.closed or self.doubt.is_set():
            return 0
        free = slots - len(self.running)
        allowed = self.breaker.places(self.clock())
        return max(0, free if allowed is None else min(free, allowed))

    def recheck_s(self) -> float | None:
        """Seconds after which it may be able again without anybody ringing; None: somebody will."""
        return self.breaker.wait_s(self.clock())

    def adopt(self, jobs: int) -> None:
        """Another worker tells how many jobs it has seen the back end run at once."""
        if isinstance(self.flow, OverlapLimit):
            self.flow.adopt(jobs, self.clock())

    def memory(self) -> Memory | None:
        """The models in its memory, as of the last look. None: it does not swap models, as only Ollama does."""
        if self.spec.kind != "ollama":
            return None
        there = [queue for queue, upstream in self._upstream.items() if upstream in self._loaded]
        return Memory(there, max(0, round((self.clock() - self._seen_at) * 1e6)))

    def started(self, stream: str) -> None:
        """A job went there; ``stream`` names the attempt."""
        self.running.add(stream)
        self.learning.started(stream)
        self.breaker.started(self.clock())
        self.flow.started(stream)

    def flowed(self, stream: str) -> None:
        """A piece of a job's answer came."""
        self.learning.flowed(stream)
        if isinstance(self.flow, OverlapLimit):
            now_at = self.clock()
            self.flow.flowed(stream, now_at)
            if self.flow.limit(now_at) > self._limit:
                self.wake.set()

    def ended(self, stream: str) -> None:
        """The connection of a job is closed."""
        self.running.discard(stream)
        self.learning.ended(stream)
        self.flow.ended(stream)
        if not self.quiet:
            self.wake.set()
