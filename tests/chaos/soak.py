"""``python -m tests.chaos.soak``: full load for half an hour, and whether anybody's memory goes on growing.

Finished jobs are remembered for ten minutes, so Redis is level only after those, and only where as many finish in the
last ten as did in those before the half. So the engines are slow enough to be what everybody waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.asyncio

from tests.chaos.crowd import Crowd
from tests.chaos.leftovers import Leftovers, look
from tests.chaos.memory import MOST_GROWTH, Curve, level, memory_of
from tests.chaos.run import QUIET_S, Options, Site, run_site

SAMPLE_S = 5.0
SETTINGS = {"DOUBLEBUFFER_DRAIN_SECONDS": "2"}
"""Else as a fresh installation has it."""
REMEMBERED_S = 600.0
DELAY_S = 0.1
"""Between two tokens of an answer."""


@dataclass(frozen=True, slots=True)
class Soaked:
    minutes: float
    clients: int
    requests: int
    outcomes: Counter[str]
    flawed: int
    curves: list[Curve]
    left: Leftovers
    crashes: list[str]
    complaints: list[str]
    folder: Path
    counts: list[tuple[float, int]]
    """Requests begun, by second of the run."""

    def remembered(self, at_s: float) -> int:
        """Requests begun in the ten minutes before."""
        upto, before = (
            max((count for second, count in self.counts if second <= at), default=0)
            for at in (at_s, at_s - REMEMBERED_S)
        )
        return upto - before

    @property
    def seconds(self) -> float:
        return self.minutes * 60

    @property
    def judged(self) -> list[Curve]:
        """RSS may stay high by what is shared or was once freed: PSS and Redis' own count say what is used."""
        return [curve for curve in self.curves if not curve.name.endswith("RSS")]

    @property
    def passed(self) -> bool:
        well = self.outcomes["answered"] + self.outcomes["left"] == self.requests and not self.flawed
        clean = not (self.left.slots or self.left.lasting or self.crashes or self.complaints)
        return level(self.judged, self.seconds) and well and clean

    def told(self) -> dict[str, Any]:
        return {
            "minutes": self.minutes,
            "clients": self.clients,
            "requests": self.requests,
            "outcomes": dict(self.outcomes),
            "flawed": self.flawed,
            "in_ten_minutes": {"half": self.remembered(self.seconds / 2), "end": self.remembered(self.seconds)},
            "slots_leaked": len(self.left.slots),
            "keys_without_lifetime": self.left.lasting,
            "memory": {
                curve.name: {
                    "half_kib": round(curve.around(self.seconds / 2, self.seconds)),
                    "end_kib": round(curve.around(self.seconds, self.seconds)),
                    "growth": round(curve.growth(self.seconds), 4),
                }
                for curve in self.curves
            },
            "passed": self.passed,
        }

    def table(self) -> str:
        half, end = self.seconds / 2, self.seconds
        lines = [f"{self.clients} clients, {self.minutes:g} minutes, {self.requests} requests: {dict(self.outcomes)}"]
        lines.append(f"{'':<24}{f'{half / 60:g} min':>12}{f'{end / 60:g} min':>12}{'growth':>10}")
        for curve in self.curves:
            growth = curve.growth(end)
            word = "  MISSED" if curve in self.judged and growth > MOST_GROWTH else ""
            first, last = (f"{curve.around(at, end) / 1024:.1f} MiB" for at in (half, end))
            lines.append(f"{curve.name:<24}{first:>12}{last:>12}{f'{100 * growth:+.1f} %':>10}{word}")
        lines.append(f"{'requests in 10 minutes':<24}{self.remembered(half):>12}{self.remembered(end):>12}")
        wrong = {
            "flawed answers": self.flawed,
            "slots leaked": len(self.left.slots),
            "keys without a lifetime": len(self.left.lasting),
            "processes that ended by themselves": len(self.crashes),
            "tracebacks in logs": len(self.complaints),
        }
        lines += [f"{name:<36}{count:>6}{'  MISSED' if count else ''}" for name, count in wrong.items()]
        return "\n".join(lines)


async def run_soak(minutes: float, options: Options) -> Soaked:
    async with run_site(options, "soak") as site:
        requests = site.folder / "requests.jsonl"
        crowd = Crowd(0, options.clients, options.words, options.hang_s, site.gateways, site.urls, site.redis, requests)
        crowd.keep = False
        curves: dict[str, Curve] = {}
        counts: list[tuple[float, int]] = []
        over = asyncio.Event()
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(crowd.run(over))
            while (at_s := time.monotonic() - began) < minutes * 60:
                counts.append((at_s, crowd.count))
                await _sample(site, curves, at_s)
                await asyncio.sleep(SAMPLE_S)
            counts.append((minutes * 60, crowd.count))
            await _sample(site, curves, minutes * 60)
            over.set()
        left = await look(site.redis.port, [url for some in site.backends for url in some], within_s=QUIET_S)
        crashes = [crash for child in site.children for crash in child.crashes]
        soaked = Soaked(
            minutes,
            options.clients,
            crowd.count,
            crowd.outcomes,
            crowd.flawed,
            sorted(curves.values(), key=lambda curve: curve.name),
            left,
            crashes,
            site.complaints(),
            site.folder,
            counts,
        )
    (site.folder / "soak.json").write_text(json.dumps(soaked.told(), indent=2) + "\n", encoding="utf-8")
    return soaked


async def _sample(site: Site, curves: dict[str, Curve], at_s: float) -> None:
    async with redis.asyncio.Redis(port=site.redis.port) as client:
        used = (await client.info("memory"))["used_memory"] / 1024
    found = {"redis used_memory": used}
    for child in [*site.gateways, *site.workers]:
        if child.pid is not None:
            found[f"{child.name} RSS"], found[f"{child.name} PSS"] = memory_of(child.pid)
    for name, value in found.items():
        curves.setdefault(name, Curve(name)).points.append((at_s, value))
    with (site.folder / "samples.jsonl").open("a", encoding="utf-8") as samples:
        samples.write(json.dumps({"at_s": round(at_s, 1), **found}) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=256, help="at once")
    parser.add_argument("--folder", type=Path, help="where the folder with the logs is made")
    given = parser.parse_args()
    options = Options(clients=given.clients, folder=given.folder, settings=SETTINGS, hang_s=300.0, delay_s=DELAY_S)
    soaked = asyncio.run(run_soak(given.minutes, options))
    print(soaked.table())
    print(f"\n{'passed' if soaked.passed else 'MISSED'}; soak.json, samples and logs in {soaked.folder}")
    return 0 if soaked.passed else 1


if __name__ == "__main__":
    sys.exit(main())
