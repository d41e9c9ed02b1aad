"""Running an engine in virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from simulate.engine import Engine
from simulate.sequence import RefusedError, Request, Step


@dataclass
class Run:
    """What came out. Instants in seconds of the model's time."""

    ended_at: float = 0.0
    steps: int = 0
    calls: int = 0
    """Of ``Engine.step``: several plain decode steps may be one."""
    first_at: dict[Hashable, float] = field(default_factory=dict)
    finished_at: dict[Hashable, float] = field(default_factory=dict)
    finished: list[Hashable] = field(default_factory=list)
    refused: list[Hashable] = field(default_factory=list)
    loads: int = 0
    kv_peak: int = 0

    def note(self, engine: Engine, step: Step, now: float) -> None:
        self.ended_at = now
        self.steps += step.count
        self.calls += 1
        self.loads += step.loading
        self.kv_peak = max(self.kv_peak, engine.held)
        for sequence in step.first:
            self.first_at[sequence.request.id] = now
        for sequence in step.finished:
            self.finished_at[sequence.request.id] = now
            self.finished.append(sequence.request.id)


def run(engine: Engine, arrivals: Sequence[tuple[float, Request]], *, single_steps: bool = False) -> Run:
    """All of it, in order of arrival."""
    out, now, next_one = Run(), 0.0, 0
    while True:
        while next_one < len(arrivals) and arrivals[next_one][0] <= now:
            at, request = arrivals[next_one]
            try:
                engine.submit(request, at)
            except RefusedError:
                out.refused.append(request.id)
            next_one += 1
        coming = arrivals[next_one][0] if next_one < len(arrivals) else None
        step = engine.step(now, None if single_steps else (coming if coming is not None else float("inf")))
        if step is None:
            waits = [at for at in (engine.wake_at, coming) if at is not None]
            if not waits:
                return out
            now = max(now, min(waits))
            continue
        now += step.duration_s
        out.note(engine, step, now)


def closed_loop(engine: Engine, clients: int, rounds: int, *, prompt: int, output: int, apart_s: float) -> float:
    """Tokens a second of clients that each ask again when they have their answer, the first time ``apart_s`` apart."""
    due = [(client * apart_s, client) for client in range(clients)]
    left, sent, tokens, now = clients * rounds, 0, 0, 0.0
    while left or engine.running or engine.waiting:
        while due and due[0][0] <= now and left:
            heapq.heappop(due)
            engine.submit(Request(sent, prompt, output), now)
            sent, left = sent + 1, left - 1
        coming = due[0][0] if due and left else None
        step = engine.step(now, coming if coming is not None else float("inf"))
        if step is None:
            now = max(now, min(at for at in (engine.wake_at, coming) if at is not None))
            continue
        now += step.duration_s
        for sequence in step.finished:
            tokens += sequence.output
            heapq.heappush(due, (now, clients))
    return tokens / now
