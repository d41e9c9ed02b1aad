"""P1 to P7, P9 and P10 under random schedules: a few seeds here, many by ``python -m tests.properties.run``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("store", "first", "seeds", "jobs"), [("redis7", 3, 4, 30), ("redis62", 12, 2, 30), ("fake", 5, 1, 12)]
)
def test_what_must_hold_holds(store: str, first: int, seeds: int, jobs: int) -> None:
    options = ["--store", store, "--first", str(first), "--seeds", str(seeds), "--jobs", str(jobs)]
    command = [sys.executable, "-m", "tests.properties.run", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
