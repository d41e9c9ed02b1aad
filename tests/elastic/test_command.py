"""Commands that start and stop an engine: real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.elastic.processes import children, gone, lives
from worker import elastic_command
from worker.elastic_command import MOST_LOGGED, Command, reduced
from worker.elastic_means import MeansError

SLEEPS = [sys.executable, "-c", "import time; print('loading', flush=True); time.sleep(60)"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(elastic_command.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


@asynccontextmanager
async def begun(command: Command) -> AsyncIterator[asyncio.TaskGroup]:
    async with asyncio.TaskGroup() as tasks:
        try:
            await command.start(tasks)
            yield tasks
        finally:
            await command.aclose()


async def written(command: Command, text: str) -> str:
    async with asyncio.timeout(30):
        while command.log is None or not command.log.exists() or text not in command.log.read_text():
            await asyncio.sleep(0.01)
    return command.log.read_text()


async def ended(command: Command) -> None:
    async with asyncio.timeout(30):
        while command.here:
            await asyncio.sleep(0.01)


async def engine_of(command: Command) -> int:
    """The process that the keeper keeps."""
    assert command._process is not None
    async with asyncio.timeout(30):
        while not (found := children(command._process.pid)):
            await asyncio.sleep(0.01)
    return found[0]


async def test_it_runs_in_a_group_of_its_own_and_ends_with_all_that_it_started() -> None:
    code = (
        "import subprocess, sys, time; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); time.sleep(60)"
    )
    command = Command("a spare", [sys.executable, "-c", code], [])
    assert command.own_process
    async with begun(command):
        child = int(await written(command, "\n"))
        assert command.here
        assert command.log is not None
        assert command.log.name == "a_spare.log"
        assert os.getpgid(child) != os.getpgid(0)
    assert not command.here
    assert command.failure == ""
    await gone(child)


async def test_the_folder_of_the_outputs_is_this_user_s_alone(folder: Path) -> None:
    async with begun(command := Command("spare", SLEEPS, [])):
        await written(command, "loading")
    assert command.log is not None
    assert command.log.parent.parent == folder
    assert command.log.parent.stat().st_mode & 0o077 == 0


async def test_somebody_else_s_folder_is_not_written_to(folder: Path) -> None:
    (folder / f"doublebuffer-{os.getuid()}").mkdir(mode=0o755)
    (folder / f"doublebuffer-{os.getuid()}").chmod(0o755)
    async with begun(command := Command("spare", [sys.executable, "-c", "print('hello')"], [])):
        await ended(command)
    assert command.log is None


async def test_what_it_says_once_it_answers_is_not_kept() -> None:
    code = "import time\nprint('loading', flush=True)\nwhile True: time.sleep(0.05); print('a prompt', flush=True)"
    command = Command("spare", [sys.executable, "-c", code], [])
    async with begun(command):
        await written(command, "loading")
        command.answers()
        before = command.log.read_text() if command.log else ""
        await asyncio.sleep(0.3)
        assert command.log is not None
        assert command.log.read_text().count("a prompt") <= before.count("a prompt") + 1


async def test_a_folder_that_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(elastic_command.tempfile, "gettempdir", lambda: str(tmp_path / "not" / "there"))
    async with begun(command := Command("spare", [sys.executable, "-c", "print('hello' * 9999)"], ["true"])):
        await ended(command)
    assert (command.log, command.failure) == (None, "")


async def test_a_great_deal_of_output_is_kept_in_part_and_holds_nothing_up() -> None:
    code = f"import sys; sys.stdout.write('x' * {4 * MOST_LOGGED}); sys.exit(3)"
    async with begun(command := Command("spare", [sys.executable, "-c", code], [])):
        await ended(command)
        assert command.failure == "Its start command ended with exit code 3."
    assert command.log is not None
    assert command.log.stat().st_size == MOST_LOGGED


async def test_it_sees_no_key_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOUBLEBUFFER_API_KEYS", "a:secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    code = "import os, sys, time; print(sorted(os.environ), flush=True)"
    async with begun(command := Command("spare", [sys.executable, "-c", code], [])):
        told = await written(command, "]")
    assert "CUDA_VISIBLE_DEVICES" in told
    assert "DOUBLEBUFFER" not in told
    assert reduced({"REDIS_URL": "x", "PATH": "/bin", "AWS_SECRET": "y"}) == {"PATH": "/bin"}


async def test_one_that_was_killed_says_so() -> None:
    async with begun(command := Command("spare", SLEEPS, [])):
        await written(command, "loading")
        os.kill(await engine_of(command), signal.SIGKILL)
        await ended(command)
        assert command.failure == "Its start command was ended by signal 9."


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with begun(Command("spare", ["no-such-engine"], [])):
            pass
    assert str(caught.value.exceptions[0]) == "There is no program 'no-such-engine' here."


async def test_a_start_beside_a_stop_may_end_by_itself(folder: Path) -> None:
    mark = folder / "mark"
    command = Command("spare", ["touch", str(mark)], ["rm", str(mark)])
    assert not command.own_process
    async with begun(command):
        await ended(command)
        assert command.failure == ""
        assert mark.exists()
        await command.leave()
        assert mark.exists()
        await command.stop()
        assert not mark.exists()
        with pytest.raises(MeansError, match="stop command ended with exit code 1"):
            await command.stop()


async def test_one_that_hears_no_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_command, "END_S", 0.2)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    async with begun(command := Command("spare", [sys.executable, "-c", code], [])):
        await written(command, "deaf")
        await command.stop()
        assert not command.here


async def test_what_an_engine_leaves_behind_ends_with_it() -> None:
    code = f"import subprocess as s; print(s.Popen({SLEEPS!r}).pid, 'left', flush=True)"
    command = Command("spare", [sys.executable, "-c", code], [])
    async with begun(command):
        pid = int((await written(command, "left")).split(maxsplit=1)[0])
        await ended(command)
        await gone(pid)
        assert command.failure == "Its start command ended with exit code 0."


async def test_what_a_stop_command_sets_going_goes_on_and_holds_nobody_up(folder: Path) -> None:
    note = folder / "pid"
    code = f"import subprocess as s; open({str(note)!r}, 'w').write(str(s.Popen({SLEEPS!r}).pid))"
    command = Command("spare", SLEEPS, [sys.executable, "-c", code])
    async with begun(command), asyncio.timeout(30):
        await command.stop()
        assert not command.here
    pid = int(note.read_text())
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)
