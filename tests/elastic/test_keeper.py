"""An engine ends with its worker, whatever the worker dies of and whatever the engine is: real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.elastic.processes import children, gone, lives

WORKER = """
import asyncio, sys, tempfile
from worker import elastic_command
tempfile.tempdir = sys.argv[1]
elastic_command.END_S = float(sys.argv[2])
async def main():
    async with asyncio.TaskGroup() as tasks:
        command = elastic_command.Command("spare", sys.argv[3:], [])
        await command.start(tasks)
        print(command._process.pid, flush=True)
asyncio.run(main())
"""
ENGINE = """
import os, signal, sys, time
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""
SHAPES = {
    "itself": "exec {}",
    "in a shell": "{}; true",
    "in a pipe": "{} | cat; true",
    "in the background": "{} & wait",
    "in a shell that hears nothing": "trap '' TERM; {}; true",
}


@asynccontextmanager
async def worker(
    folder: Path, shape: str, manner: str = "", *, end_s: float = 10.0
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int, int]]:
    """A worker that has started an engine, the engine's keeper, and the engine."""
    (folder / "engine.py").write_text(ENGINE)
    command = f"{sys.executable} {folder}/engine.py {folder}/pid '{manner}'"
    start = ["sh", "-c", SHAPES[shape].format(command)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKER, str(folder), str(end_s), *start), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    engine = 0
    try:
        keeper = int(await process.stdout.readline())
        async with asyncio.timeout(30):
            while not (folder / "pid").exists():
                await asyncio.sleep(0.01)
        engine = int((folder / "pid").read_text())
        yield process, keeper, engine
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if engine and lives(engine):
            os.kill(engine, signal.SIGKILL)


@pytest.mark.parametrize("shape", SHAPES)
async def test_it_ends_with_a_worker_that_is_killed(tmp_path: Path, shape: str) -> None:
    # Whoever hears nothing is killed soon.
    async with worker(tmp_path, shape, end_s=0.5) as (process, keeper, engine):
        assert lives(engine)
        process.kill()
        await process.wait()
        await gone(engine, keeper)


async def test_one_that_hears_nothing_is_killed_after_its_time(tmp_path: Path) -> None:
    async with worker(tmp_path, "in a shell", "deaf", end_s=1.0) as (process, keeper, engine):
        killed_at = time.monotonic()
        process.kill()
        await process.wait()
        await gone(engine, keeper)
        assert time.monotonic() - killed_at >= 1.0


async def test_a_worker_that_only_stands_still_keeps_its_engine(tmp_path: Path) -> None:
    async with worker(tmp_path, "in a shell", end_s=0.1) as (process, keeper, engine):
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(0.5)
        assert lives(keeper)
        assert lives(engine)
        process.send_signal(signal.SIGCONT)


async def test_a_stranger_is_never_touched(tmp_path: Path) -> None:
    """Not even one that was started beside it, by the same worker's parent."""
    stranger = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        async with worker(tmp_path, "in a shell", end_s=0.5) as (process, keeper, engine):
            process.kill()
            await process.wait()
            await gone(engine, keeper)
            assert lives(stranger.pid)
    finally:
        stranger.kill()
        await stranger.wait()


async def test_an_engine_that_is_no_shell_ends_with_a_keeper_that_is_killed_too(tmp_path: Path) -> None:
    async with worker(tmp_path, "itself") as (process, keeper, engine):
        assert children(keeper) == [engine]
        os.kill(keeper, signal.SIGKILL)
        process.kill()
        await process.wait()
        await gone(engine, keeper)


async def test_a_keeper_that_is_told_to_end_ends_its_engine(tmp_path: Path) -> None:
    async with worker(tmp_path, "in a shell") as (_, keeper, engine):
        os.kill(keeper, signal.SIGTERM)
        await gone(engine, keeper)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -SEGV $$"], -signal.SIGSEGV),
        (["sh", "-c", "kill -9 $$"], -signal.SIGKILL),
        (["true"], 0),
        (["/etc/passwd"], 126),
    ],
)
async def test_a_keeper_ends_as_its_engine_does(tmp_path: Path, command: Sequence[str], code: int) -> None:
    keeper = Path(__file__).parents[2] / "worker" / "elastic_keeper.py"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(keeper), "1", *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=tmp_path,
    )
    said, _ = await process.communicate() if code == 126 else (b"", None)
    async with asyncio.timeout(20):
        assert await process.wait() == code
    if code == 126:
        assert said == b"'/etc/passwd' cannot be run: Permission denied.\n"
    assert os.listdir(tmp_path) == []
