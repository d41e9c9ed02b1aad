"""What a command line asks for: which requests, at which times, to whom."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.processes import BenchError
from simulate.cost import PROFILES, Profile, profile_named
from simulate.study import CAPACITY_CLIENTS, Case, capacity, sizes
from simulate.workload import REFUSAL, WORKLOADS, Arrival, TraceError, at_rate, read_trace

DEFAULT_PROFILE = "rtx4090-vllm"
DEFAULT_LOAD = 0.7
OLLAMA_SLOTS = 4
"""Ollama has one if nobody says more, and then nobody has a choice to make."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One bench."""

    workload: str
    drawn: tuple[Arrival, ...]
    """A round's requests; of a trace, with its own times."""
    trace: tuple[Arrival, ...]
    """All of it, where there is one."""
    seed: int
    rounds: int
    speed: float
    """Seconds of the engine's time in one of the wall's."""
    profile: Profile | None
    """Of a simulated engine of our own."""
    direct: str = ""
    gateway: str = ""
    model: str = ""
    key: str = ""
    workers: int = 2
    clients: int = 0
    load: float = 0.0
    rate: float = 0.0
    """Requests a second of the engine's time, where they are given."""
    refuse_wait_s: Mapping[str, float] | None = None

    def at(self, rate: float) -> list[Arrival]:
        """The requests with their times, ``rate`` a second. Raises ``BenchError`` on a rate that is none."""
        if not (rate > 0 and math.isfinite(rate)):
            raise BenchError("the engine can take no request of this workload.")
        if self.trace:
            return at_rate(list(self.drawn), rate)
        return WORKLOADS[self.workload].poisson(len(self.drawn), rate, self.seed)

    def sustained(self) -> float:
        """Requests a second that the simulated engine sustains when all are sent direct, as the study reckons it: in
        virtual time, in a closed loop that always has enough of them.
        """
        if self.profile is None:
            raise BenchError("what a real engine sustains has to be measured.")
        return capacity(self.profile, self._many())

    def _many(self) -> Sequence[Arrival]:
        """As many as the study takes: the last ones of a few would count for too much."""
        return sizes(Case(self.workload, DEFAULT_PROFILE, load=1.0, trace=self.trace), self.seed)


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Raises ``BenchError`` on what cannot be meant."""
    if bool(arguments.direct) != bool(arguments.gateway):
        raise BenchError("--direct and --gateway belong together.")
    if arguments.direct and arguments.simulate:
        raise BenchError("either --simulate or --direct and --gateway, not both.")
    for name in ("workers", "requests", "rounds"):
        if getattr(arguments, name) < 1:
            raise BenchError(f"--{name} must be at least 1.")
    for name in ("speed", "load", "rate", "clients"):
        value = getattr(arguments, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise BenchError(f"--{name} must be a number above 0.")
    workload, drawn, trace = _requests(arguments)
    load = arguments.load or 0.0
    if not (arguments.load or arguments.rate or arguments.clients):
        load = WORKLOADS[workload].load or DEFAULT_LOAD if workload in WORKLOADS else DEFAULT_LOAD
    closed = not arguments.trace and WORKLOADS[workload].closed
    if closed and not arguments.clients and not (arguments.load or arguments.rate):
        raise BenchError(f"{workload} is a closed loop: say how many --clients.")
    return Plan(
        workload=workload,
        drawn=tuple(drawn),
        trace=trace,
        seed=arguments.seed,
        rounds=arguments.rounds,
        speed=arguments.speed,
        profile=None if arguments.direct else _profile(arguments),
        direct=(arguments.direct or "").rstrip("/"),
        gateway=(arguments.gateway or "").rstrip("/"),
        model=arguments.model or "",
        key=arguments.api_key or "",
        workers=arguments.workers,
        clients=arguments.clients or 0,
        load=load,
        rate=arguments.rate or 0.0,
        refuse_wait_s=REFUSAL.refuse_wait_s if workload == REFUSAL.name else None,
    )


def _profile(arguments: argparse.Namespace) -> Profile:
    name = arguments.simulate or ("h100-vllm" if arguments.workload == "mix85k" else DEFAULT_PROFILE)
    slots = arguments.slots
    if slots is None and name in PROFILES and PROFILES[name].kind == "ollama":
        slots = OLLAMA_SLOTS
    try:
        return profile_named(name, slots=slots, num_ctx=arguments.num_ctx)
    except ValueError as error:
        raise BenchError(f"--simulate, --slots and --num-ctx: {error}.") from None


def _requests(arguments: argparse.Namespace) -> tuple[str, list[Arrival], tuple[Arrival, ...]]:
    """The workload's name, a round's requests, and the whole trace."""
    if not arguments.trace:
        name = arguments.workload or "mix"
        return name, WORKLOADS[name].draw(arguments.requests, arguments.seed), ()
    path = Path(arguments.trace)
    try:
        whole = tuple(read_trace(path))
    except TraceError as error:
        raise BenchError(f"--trace: {error}.") from None
    except OSError as error:
        raise BenchError(f"--trace: cannot read {path}: {error.strerror or error}.") from None
    count = min(arguments.requests, len(whole))
    like = Case(path.stem, DEFAULT_PROFILE, load=1.0, requests=count, trace=whole)
    return path.stem, sizes(like, arguments.seed), whole


def capacity_note(plan: Plan, rate: float, *, measured: int = 0) -> str:
    """What load 1 is here. ``measured``: with so many requests, by sending them."""
    how = (
        f"measured: {measured} requests sent direct in a closed loop of {min(CAPACITY_CLIENTS, measured)}"
        if measured
        else f"computed as the study does: direct in a closed loop of {CAPACITY_CLIENTS}, in virtual time"
    )
    return f"Load 1 is {rate:.4g} requests a second of the engine's time ({how})."
