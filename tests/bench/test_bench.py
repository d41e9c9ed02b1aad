"""The command itself, for some seconds, on processes of its own."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from doublebuffer.cli import main

STARTED = re.compile(r"doublebuffer-bench-")


def running() -> set[int]:
    """Processes that a bench has started and that are still there."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if STARTED.search(str((process / "cwd").readlink())):
                found.add(int(process.name))
        except OSError:
            continue
    return found


async def test_a_bench_that_is_told_to_stop_leaves_nothing_behind() -> None:
    before = running()
    command = (sys.executable, "-m", "doublebuffer", "bench", "--rate", "0.001")
    bench = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(30):
            while len(running() - before) < 5:
                await asyncio.sleep(0.05)
        bench.terminate()
        assert await asyncio.wait_for(bench.wait(), 30) == 130
        assert running() <= before
        assert bench.stderr is not None
        assert (await bench.stderr.read()).decode().endswith("bench: stopped before its end.\n")
    finally:
        if bench.returncode is None:
            bench.kill()


def test_a_short_bench_on_its_own_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = running()
    files = {name: tmp_path / f"bench.{name}" for name in ("json", "html")}
    what = ["--workload", "mix", "--rate", "2", "--requests", "10", "--rounds", "1", "--speed", "20", "--seed", "3"]
    assert main(["bench", *what, *(f"--{name}={file}" for name, file in files.items())]) == 0
    assert running() <= before, "it ends what it started"
    printed = capsys.readouterr()
    assert printed.out.startswith("SIMULATED")
    assert "round 1 of 1, through the gateway: 10 of 10 answered" in printed.err
    told = json.loads(files["json"].read_text(encoding="utf-8"))
    direct, gateway = told["runs"]
    for one in (direct, gateway):
        assert [request["outcome"] for request in one["requests"]] == ["answered"] * 10
        # As long as the workload says, to the token, by the engine's own count.
        sizes = {(request["prompt_tokens"], request["tokens"]) for request in one["requests"]}
        assert sizes <= {(60, 128), (4_000, 256), (24_000, 512)}
    for name in ("number", "lane", "due_at", "prompt_tokens", "tokens"):
        assert [one[name] for one in direct["requests"]] == [one[name] for one in gateway["requests"]]
    assert all(one["gateway_lane"] == one["lane"] for one in gateway["requests"])
    rows = {(row["way"], row["lane"]): row for row in told["rows"] if not row["round"]}
    assert 0 < rows["gateway", "all"]["in_flight"] <= 10
    assert 1 <= rows["gateway", "all"]["batch"] <= 8
    assert rows["direct", "all"]["preempted"] is not None
    assert set(gateway["cores"]) == {"load generator", "engine", "redis", "gateway", "worker-1", "worker-2"}
    assert "SIMULATED" in files["html"].read_text(encoding="utf-8")
