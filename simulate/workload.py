"""Who asks for how much, and when: named workloads, and traces of real ones. Seeded, so that runs can be repeated."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a workload. ``at_s``: seconds from the start of the run; lengths in tokens."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    shared_tokens: int = 0
    """Leading prompt tokens that an earlier request of the trace had too, where the trace tells."""


@dataclass(frozen=True, slots=True)
class Size:
    """A kind of request, and its share of all, 0 to 1."""

    share: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Workload:
    """A mixture of sizes."""

    name: str
    sizes: tuple[Size, ...]
    closed: bool = False
    """Made for a closed loop of clients, each of which asks again when it has its answer; else for Poisson arrivals."""
    load: float = 0.0
    """The load it is meant for, as a share of what the engine sustains; 0: any."""
    refuse_wait_s: Mapping[str, float] | None = None
    """Lane → predicted wait in seconds above which a request is refused at the door."""

    def draw(self, count: int, seed: int) -> list[Arrival]:
        """``count`` requests without a time (all 0), for a closed loop."""
        source = random.Random(f"{self.name} sizes {seed}")
        weights = [size.share for size in self.sizes]
        chosen = source.choices(self.sizes, weights, k=count)
        return [Arrival(0.0, size.prompt_tokens, size.output_tokens) for size in chosen]

    def poisson(self, count: int, rate: float, seed: int) -> list[Arrival]:
        """``count`` requests at ``rate`` a second on the average, the first at a random time too.

        Sizes do not depend on the rate, and times scale with it exactly: the same seed at another load is the same run,
        stretched. Raises ``ValueError`` on a rate that is not positive.
        """
        if not rate > 0:
            raise ValueError("the rate must be positive")
        source = random.Random(f"{self.name} arrivals {seed}")
        times = accumulate(source.expovariate(1.0) for _ in range(count))
        return [replace(one, at_s=at / rate) for one, at in zip(self.draw(count, seed), times, strict=True)]


def _mix(name: str, document: int, load: float = 0.0, refuse_wait_s: Mapping[str, float] | None = None) -> Workload:
    sizes = (Size(0.70, 60, 128), Size(0.20, 4_000, 256), Size(0.10, document, 512))
    return Workload(name, sizes, load=load, refuse_wait_s=refuse_wait_s)


CHAT = Workload("chat", (Size(1.0, 512, 256),), closed=True)
MIX = _mix("mix", 24_000)
MIX85K = _mix("mix85k", 85_000)
REFUSAL = _mix("refusal", 24_000, load=1.3, refuse_wait_s={"fast": 5.0, "normal": 20.0, "slow": 90.0})

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in (CHAT, MIX, MIX85K, REFUSAL)}


class TraceError(ValueError):
    """A file is no trace. ``str()`` names the file and the line."""


def read_trace(path: Path) -> list[Arrival]:
    """A trace in CSV, in order of arrival, its first request at 0.

    Needs the columns ``arrival_s``, ``prompt_tokens`` and ``output_tokens``; takes
    ``cached_prefix_tokens_infinite_cache`` where it is there, and leaves any other. Raises ``TraceError`` on a file
    that is none, ``OSError`` on one that cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            return parse_trace(lines, name=path.name)
    except (UnicodeDecodeError, csv.Error):
        raise TraceError(f"{path.name} is no CSV in UTF-8") from None


def parse_trace(lines: Iterable[str], *, name: str = "trace") -> list[Arrival]:
    """As ``read_trace``, of lines."""
    rows = csv.DictReader(lines)
    missing = {"arrival_s", "prompt_tokens", "output_tokens"} - set(rows.fieldnames or ())
    if missing:
        raise TraceError(f"{name} lacks the column {sorted(missing)[0]}")
    arrivals: list[Arrival] = []
    for row in rows:
        try:
            at_s, prompt, output = float(row["arrival_s"]), int(row["prompt_tokens"]), int(row["output_tokens"])
            shared = int(row.get("cached_prefix_tokens_infinite_cache") or 0)
        except (TypeError, ValueError) as error:
            raise TraceError(f"{name}, line {rows.line_num}: not a number where one should be") from error
        if not math.isfinite(at_s) or prompt < 0 or output < 0 or not 0 <= shared <= prompt:
            raise TraceError(f"{name}, line {rows.line_num}: a number out of range")
        arrivals.append(Arrival(at_s, max(1, prompt), max(1, output), shared))
    if not arrivals:
        raise TraceError(f"{name} has no requests")
    arrivals.sort(key=lambda one: one.at_s)
    start_s = arrivals[0].at_s
    return [replace(one, at_s=one.at_s - start_s) for one in arrivals]


def rate_of(arrivals: list[Arrival]) -> float:
    """Requests a second of a trace. Infinite if all come at once."""
    span_s = arrivals[-1].at_s - arrivals[0].at_s
    return (len(arrivals) - 1) / span_s if span_s > 0 else math.inf


def at_rate(arrivals: list[Arrival], rate: float) -> list[Arrival]:
    """The trace with its times stretched by one factor, so that ``rate`` requests come a second on the average.

    Raises ``ValueError`` on a rate that is not positive.
    """
    if not rate > 0:
        raise ValueError("the rate must be positive")
    own = rate_of(arrivals)
    if not math.isfinite(own) or own == 0:
        return arrivals
    return [replace(one, at_s=one.at_s * own / rate) for one in arrivals]
