"""One run of a workload in virtual time: requests come, a door lets them through to a simulated engine, and what became
of each is noted. Nothing waits and nothing is random; instants are seconds from the start of the run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from simulate.engine import Engine
from simulate.sequence import RefusedError, Request, Running
from simulate.workload import Arrival


@dataclass(slots=True, eq=False)
class Ask:
    """One request of a run, and what became of it."""

    number: int
    arrival: Arrival
    lane: str
    at: float
    sent_at: float = math.nan
    """When it was first on its way to the engine."""
    first_at: float = math.nan
    """When its first token came."""
    ended_at: float = math.nan
    answer_tokens: int = 0
    refused: bool = False

    @property
    def ttft_s(self) -> float:
        """Arrival to first token; NaN if it was refused."""
        return self.first_at - self.at

    @property
    def wait_s(self) -> float:
        """Arrival to the first dispatch; NaN if it was refused."""
        return self.sent_at - self.at


@dataclass(frozen=True, slots=True)
class Sending:
    """Something for the engine. ``final``: the whole of the ask, whose answer is the client's."""

    ask: Ask
    request: Request
    final: bool = True


class Door(Protocol):
    """A policy: what of the requests goes to the engine, and when."""

    path_s: float
    """How long something takes from here to the engine."""

    def come(self, ask: Ask, now: float) -> None:
        """A request arrives. It may be refused by ``ask.refused = True``."""
        ...

    def go(self, now: float) -> list[Sending]:
        """What goes now, as one batch. Called after anything has happened, until it gives nothing."""
        ...

    def wake_at(self) -> float | None:
        """When ``go`` is to be asked again though nothing has happened."""
        ...

    def begun(self, sending: Sending, now: float) -> None:
        """The first token of something sent has come."""
        ...

    def done(self, sending: Sending, running: Running, now: float) -> None:
        """The engine has finished something sent."""
        ...

    def refused(self, sending: Sending) -> None:
        """The engine takes something sent not at all."""
        ...


@dataclass(slots=True)
class Outcome:
    """What a run came to."""

    asks: list[Ask]
    ended_at: float = 0.0
    """When the last answer was complete."""
    batches: int = 0
    sent: int = 0
    in_flight_s: float = 0.0
    """Jobs in flight, summed over the time in which there were any."""
    busy_s: float = 0.0
    """That time."""
    tokens: int = 0
    """Of all answers."""
    preemptions: int = 0

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.ended_at if self.ended_at else 0.0

    @property
    def mean_batch(self) -> float:
        return self.sent / self.batches if self.batches else 0.0

    @property
    def mean_in_flight(self) -> float:
        return self.in_flight_s / self.busy_s if self.busy_s else 0.0


@dataclass(slots=True)
class _Run:
    engine: Engine
    door: Door
    arrivals: Sequence[Arrival]
    lanes: Sequence[str]
    clients: int
    outcome: Outcome = field(default_factory=lambda: Outcome([]))
    on_the_way: list[tuple[float, int, Sending]] = field(default_factory=list)
    inside: dict[object, Sending] = field(default_factory=dict)
    serial: int = 0
    in_flight: int = 0
    next: int = 0
    """Number of the next arrival."""
    open: int = 0
    """Asks that have come and are neither refused nor answered."""

    def play(self) -> Outcome:
        """The whole run."""
        now = 0.0
        step_ends: float | None = None
        step = None
        if self.clients:
            self._let_in(now)
        while True:
            arrival_at = math.inf if self.clients or self._last() else self.arrivals[self.next].at_s
            way_at = self.on_the_way[0][0] if self.on_the_way else math.inf
            door_at = self.door.wake_at()
            outside = min(arrival_at, way_at, math.inf if door_at is None else max(door_at, now))
            if step_ends is None:
                step = self.engine.step(now, outside)
                if step is not None:
                    step_ends = now + step.duration_s
                else:
                    wake = self.engine.wake_at
                    outside = min(outside, math.inf if wake is None else wake)
            at = min(outside, math.inf if step_ends is None else step_ends)
            if at == math.inf:
                break
            self._pass(at - now)
            now = max(now, at)
            if step is not None and step_ends is not None and step_ends <= now:
                for running in step.first:
                    self._begun(running, now)
                for running in step.finished:
                    self._done(running, now)
                step, step_ends = None, None
            while self.on_the_way and self.on_the_way[0][0] <= now:
                self._deliver(heapq.heappop(self.on_the_way)[2], now)
            self._let_in(now)
        self.outcome.preemptions = self.engine.preemptions
        return self.outcome

    def _last(self) -> bool:
        return self.next >= len(self.arrivals)

    def _is_time(self, now: float) -> bool:
        if self._last():
            return False
        return self.open < self.clients if self.clients else self.arrivals[self.next].at_s <= now

    def _let_in(self, now: float) -> None:
        """Whoever comes now, and what goes to the engine then. A refused client comes with its next request at once."""
        while True:
            while self._is_time(now):
                self._come(self.next, now)
                self.next += 1
            self._send(now)
            if not self._is_time(now):
                return

    def _pass(self, seconds: float) -> None:
        if self.in_flight and seconds > 0:
            self.outcome.in_flight_s += self.in_flight * seconds
            self.outcome.busy_s += seconds

    def _come(self, number: int, now: float) -> None:
        ask = Ask(number, self.arrivals[number], self.lanes[number], now)
        self.outcome.asks.append(ask)
        self.door.come(ask, now)
        self.open += not ask.refused

    def _send(self, now: float) -> None:
        while batch := self.door.go(now):
            self.outcome.batches += 1
            self.outcome.sent += len(batch)
            for sending in batch:
                self.in_flight += 1
                if math.isnan(sending.ask.sent_at):
                    sending.ask.sent_at = now
                self.serial += 1
                if self.door.path_s:
                    heapq.heappush(self.on_the_way, (now + self.door.path_s, self.serial, sending))
                else:
                    self._deliver(sending, now)

    def _deliver(self, sending: Sending, now: float) -> None:
        try:
            self.engine.submit(sending.request, now)
        except RefusedError:
            sending.ask.refused = True
            self.in_flight -= 1
            self.open -= 1
            self.door.refused(sending)
            return
        self.inside[sending.request.id] = sending

    def _begun(self, running: Running, now: float) -> None:
        sending = self.inside[running.request.id]
        if sending.final and math.isnan(sending.ask.first_at):
            sending.ask.first_at = now
        self.door.begun(sending, now)

    def _done(self, running: Running, now: float) -> None:
        sending = self.inside.pop(running.request.id)
        self.in_flight -= 1
        if sending.final:
            self.open -= 1
            sending.ask.ended_at = self.outcome.ended_at = now
            sending.ask.answer_tokens = running.output
            self.outcome.tokens += running.output
        self.door.done(sending, running, now)


def play(engine: Engine, door: Door, arrivals: Sequence[Arrival], lanes: Sequence[str], *, clients: int = 0) -> Outcome:
    """Runs ``arrivals`` through ``door`` to ``engine``. ``lanes``: of each. ``clients``: a closed loop of so many,
    which take the requests in order and whose times do not count; 0: each comes at its time.
    """
    return _Run(engine, door, arrivals, lanes, clients).play()
