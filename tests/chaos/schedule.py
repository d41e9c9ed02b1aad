"""Which faults come when: settled by the seed before the run begins. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Kind = Literal[
    "worker killed",
    "worker told to stop",
    "worker frozen",
    "gateway killed",
    "gateway frozen",
    "engine streams broken",
    "engine stalled",
    "engine answers 5xx",
    "engine killed",
    "redis killed, AOF",
    "redis told to stop, AOF",
    "redis restarted empty",
    "redis frozen",
]

PER_MINUTE: dict[Kind, float] = {
    "worker killed": 5,
    "worker told to stop": 2,
    "worker frozen": 2,
    "gateway killed": 1,
    "gateway frozen": 1,
    "engine streams broken": 5,
    "engine stalled": 2,
    "engine answers 5xx": 3,
    "engine killed": 2,
    "redis killed, AOF": 1,
    "redis told to stop, AOF": 0.7,
    "redis restarted empty": 1,
    "redis frozen": 1,
}
STORE = tuple(kind for kind in PER_MINUTE if kind.startswith("redis"))
BREAKS = ("rst", "cut", "error", "clean")
"""How engine streams break: reset, closed, by an error inside the stream, ended without an end."""
BURSTS = ("500", "503", "html")
FROZEN_S = 3.0
FIRST_S = 3.0
"""The crowd comes to speed undisturbed."""
LAST_GATEWAY = 0.6
"""Of the run's time; a dead gateway's jobs are only given up after 15 s."""


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    kind: Kind
    target: int
    """Which worker, gateway or engine process."""
    how: str = ""
    for_s: float = 0.0
    """How long it lasts: until the restart, or the end of the stall, burst or freeze."""


@dataclass(frozen=True, slots=True)
class Sizes:
    workers: int
    gateways: int
    engines: int

    def of(self, kind: Kind) -> int:
        part = kind.split()[0]
        return {"worker": self.workers, "gateway": self.gateways, "engine": self.engines}.get(part, 1)


def plan(seed: int, seconds: float, sizes: Sizes, *, lease_s: float, stall_s: float) -> list[Fault]:
    """All faults of a run, in order. No two store faults within a lease, and none at what is down already."""
    draw = Random(f"faults {seed}")
    last_s = max(seconds - 2 * lease_s, seconds * 0.8)
    faults = _store_faults(draw, seconds, last_s, lease_s)
    for kind, rate in PER_MINUTE.items():
        if kind in STORE:
            continue
        end_s = min(last_s, seconds * LAST_GATEWAY) if kind == "gateway killed" else last_s
        for _ in range(_how_many(rate, seconds)):
            for _ in range(50):
                fault = _drawn(draw, draw.uniform(FIRST_S, end_s), kind, draw.randrange(sizes.of(kind)), stall_s)
                if not any(_collide(fault, other) for other in faults):
                    faults.append(fault)
                    break
    return sorted(faults, key=lambda fault: fault.at_s)


def _how_many(rate: float, seconds: float) -> int:
    return max(1, round(rate * seconds / 60))


def _store_faults(draw: Random, seconds: float, last_s: float, lease_s: float) -> list[Fault]:
    kinds: list[Kind] = [kind for kind in STORE for _ in range(_how_many(PER_MINUTE[kind], seconds))]
    draw.shuffle(kinds)
    # Each has a part of the time for itself, and stays away from the next one's by a lease and its own length.
    part_s = (last_s - FIRST_S) / len(kinds)
    free_s = max(0.0, part_s - 2 * lease_s - FROZEN_S)
    return [
        _drawn(draw, FIRST_S + i * part_s + draw.uniform(0, free_s), kind, 0, stall_s=0.0)
        for i, kind in enumerate(kinds)
    ]


def _drawn(draw: Random, at_s: float, kind: Kind, target: int, stall_s: float) -> Fault:
    match kind:
        case "engine streams broken":
            return Fault(at_s, kind, target, draw.choice(BREAKS))
        case "engine stalled":
            # Half of them too short to be noticed.
            return Fault(at_s, kind, target, for_s=draw.choice((stall_s / 3, 3 * stall_s)))
        case "engine answers 5xx":
            return Fault(at_s, kind, target, draw.choice(BURSTS), draw.uniform(0.5, 2.0))
        case "worker frozen" | "gateway frozen":
            # Some long enough to be taken for dead.
            return Fault(at_s, kind, target, for_s=draw.uniform(1.0, 6.0))
        case "redis frozen":
            return Fault(at_s, kind, target, for_s=FROZEN_S)
        case _:
            return Fault(at_s, kind, target, for_s=draw.uniform(0.3, 2.0))


SETTLED_S = 4.0
"""A process that was started again is up by then."""


def _collide(one: Fault, other: Fault) -> bool:
    """Whether two faults would hit the same process at the same time."""
    if one.kind.split()[0] != other.kind.split()[0] or one.target != other.target:
        return False
    first, second = sorted((one, other), key=lambda fault: fault.at_s)
    return second.at_s < first.at_s + first.for_s + SETTLED_S
