"""``doublebuffer bench overhead``: what it costs to stand between a client and an engine, beside what others cost.

Direct, each peer and Doublebuffer take turns within each round of one run, so that all meet the same machine. All
processes of a path share one core; load and mock engine share the other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path as File

from bench.cost import paths
from bench.cost.machine import Machine, machine
from bench.cost.paths import Path
from bench.cost.peers import LOAD_CORE
from bench.cost.processes import Site
from bench.cost.result import Result
from bench.cost.rows import EMBEDDED, FLEET, ROWS, Figures, Row, measure, middle
from bench.cost.waiting import waiting
from bench.processes import BenchError

PATH_CORE = 0
WARM_S = 0.3
WAITING = "waiting"
"""The row of the jobs that wait."""
Start = Callable[[Site, int], Awaitable[Path]]

STARTS: Mapping[str, Start] = {
    "direct": paths.direct,
    "nginx": paths.nginx,
    "vllm-router": paths.vllm_router,
    "litellm": paths.litellm,
    "openai-rq": paths.openai_rq,
    "doublebuffer": paths.ours,
    FLEET: lambda site, engine: paths.ours(site, engine, name=FLEET, each=2),
    EMBEDDED: paths.embedded,
}


def chosen(known: Iterable[str], wanted: str | None, flag: str) -> list[str]:
    """Raises ``BenchError`` on a name that is none."""
    names = list(known)
    if wanted is None:
        return names
    asked = [name.strip() for name in wanted.split(",")]
    for name in asked:
        if name not in names:
            raise BenchError(f"{flag}: there is no {name!r}; there are {', '.join(names)}.")
    return asked


async def run_overhead(arguments: argparse.Namespace, scripts: Mapping[str, str]) -> Result:
    """``scripts``: SHA-1 → name of the store's scripts. Raises ``BenchError``."""
    names = chosen(STARTS, arguments.paths, "--paths")
    keys = chosen([*(row.key for row in ROWS), WAITING], arguments.rows, "--rows")
    rows = [row for row in ROWS if row.key in keys]
    if (os.cpu_count() or 1) <= max(PATH_CORE, LOAD_CORE):
        raise BenchError("two cores are needed: one for the path, one for load and engine.")
    os.sched_setaffinity(0, {LOAD_CORE})
    with tempfile.TemporaryDirectory(prefix="doublebuffer-overhead-") as folder:
        async with AsyncExitStack() as stack:
            site = Site(stack, File(folder), PATH_CORE)
            engine = await _engine(site)
            found, absent = await _start(site, engine, names)
            rounds = await _rounds(rows, found, arguments.rounds, arguments.rest)
        many: dict[str, float] = {}
        if WAITING in keys:
            async with AsyncExitStack() as stack:
                site = Site(stack, File(folder) / WAITING, PATH_CORE)
                many = await waiting(site, await _engine(site), scripts)
    middles = {key: _middles(each) for key, each in rounds.items()}
    return Result(machine(), arguments.rounds, absent, middles, rounds, many)


def _middles(of_paths: Mapping[str, list[Figures]]) -> dict[str, Figures]:
    return {name: middle(each) for name, each in of_paths.items() if each}


async def _engine(site: Site) -> int:
    """The port of a mock engine of its own."""
    process = await site.talk([sys.executable, "-m", "bench.cost.engine", "0"], core=LOAD_CORE)
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise BenchError("the mock engine did not start.")
    return int(line)


async def _start(site: Site, engine: int, names: Iterable[str]) -> tuple[list[Path], dict[str, str]]:
    """The paths, and why others are not there."""
    found: list[Path] = []
    absent: dict[str, str] = {}
    for name in names:
        try:
            found.append(await STARTS[name](site, engine))
        except BenchError as error:
            absent[name] = str(error)
            print(f"  without {name}: {error}", file=sys.stderr, flush=True)
    return found, absent


async def _rounds(
    rows: Iterable[Row], found: list[Path], count: int, rest_s: float
) -> dict[str, dict[str, list[Figures]]]:
    out: dict[str, dict[str, list[Figures]]] = {}
    for row in rows:
        mine = [path for path in found if path.name in row.paths]
        of_row = out[row.key] = {path.name: [] for path in mine}
        for path in mine:
            await path.put(replace(row.ask, for_s=min(WARM_S, row.ask.for_s)))
        for number in range(count):
            # Whoever goes first in one round goes last in the next.
            for path in mine if number % 2 == 0 else reversed(mine):
                of_row[path.name].append(await measure(row, path))
                await asyncio.sleep(rest_s)
        print(f"  {row.title}: done", file=sys.stderr, flush=True)
    return out


__all__ = ["BenchError", "Machine", "Result", "run_overhead"]
