"""P1 to P7, P9 and P10 under random schedules: a few seeds here, many by ``python -m tests.properties.run``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from buffer.access import Store
from tests.properties.server import Server
from tests.properties.world import Names, World

ROOT = Path(__file__).parents[2]


def run(store: str, first: int, seeds: int, jobs: int) -> subprocess.CompletedProcess[str]:
    options = ["--store", store, "--first", str(first), "--seeds", str(seeds), "--jobs", str(jobs)]
    command = [sys.executable, "-m", "tests.properties.run", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.parametrize(
    ("store", "first", "seeds", "jobs"), [("redis7", 3, 4, 30), ("redis62", 12, 2, 30), ("fake", 5, 1, 12)]
)
def test_what_must_hold_holds(store: str, first: int, seeds: int, jobs: int) -> None:
    done = run(store, first, seeds, jobs)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_is_the_same_schedule_each_time() -> None:
    """Or what it has found is not found again."""
    told = [run("redis7", 6, 1, 12).stdout.splitlines()[1:] for _ in range(2)]
    assert len(told[0]) == 4
    assert told[0] == told[1]


async def test_the_schedules_store_gives_the_instant_to_scripts_that_take_one() -> None:
    server = Server(None, "properties-told")
    try:
        world = World(server, Random(0), Names((), ("b",)))
        server.ask([("ZADD", world.keys.states, 1, "b"), ("SET", world.keys.state("b"), "told")])
        told = Store.call("told", keys=[world.keys.base], args=["state"])
        inbox = Store.call("create", keys=[world.keys.base], args=[0, "g:1"])
        assert world.execute([told, inbox]) == [[[b"told"]], 1]
    finally:
        server.close()
