"""A spare that commands start and stop: in a process group of its own, with little of this worker's environment.

What it writes is kept in a file until it first answers, a bounded part of it. From then on prompts may be in it, and
nothing of it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import stat
import tempfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from worker.elastic_means import MeansError

MOST_LOGGED = 65_536
"""Bytes of a start's output that are kept: its beginning."""
END_S = 10.0
"""How long a process may take to end before it is killed."""
COMMAND_S = 110.0
"""How long a ``stop`` command may take."""
SWEEP_S = 0.2
_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR"}
    | {"DBUS_SESSION_BUS_ADDRESS", "HF_HOME", "OLLAMA_MODELS"}
)
_KEPT_BEGINNINGS = ("LC_", "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "OMP_")


def reduced(environ: Mapping[str, str]) -> dict[str, str]:
    """What a command may see of an environment: where programs and cards are, and none of our settings or keys."""
    return {name: value for name, value in environ.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)}


class Command:
    """One spare's commands. ``start`` without ``stop`` is the engine itself: it ends with this worker."""

    def __init__(self, name: str, start: Sequence[str], stop: Sequence[str]) -> None:
        self._name = name
        self._start = list(start)
        self._stop = list(stop)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers = False
        self._ending = False
        self.log: Path | None = None
        """Where the output of the last start is."""

    @property
    def own_process(self) -> bool:
        return not self._stop

    @property
    def here(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def failure(self) -> str:
        """Why the start came to nothing; empty: it did not, as far as is known."""
        code = self._process.returncode if self._process is not None else None
        if code is None or self._ending or (self._stop and code == 0):
            return ""
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"Its start command {how}."

    def answers(self) -> None:
        """It takes requests from now on: what it writes may hold a prompt."""
        self._answers = True

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Raises ``MeansError``."""
        await self.aclose()
        self._answers = self._ending = False
        # Without a stop command nobody else would end it where this worker is killed.
        bound = [setpriv, "--pdeathsig", "TERM"] if not self._stop and (setpriv := shutil.which("setpriv")) else []
        self._process = await self._run(self._start, bound)
        self._reading = tasks.create_task(self._read(self._process))
        if not self._stop:
            tasks.create_task(_sweep(self._process))

    @staticmethod
    async def _run(
        command: Sequence[str], bound: Sequence[str] = (), out: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        if shutil.which(command[0], path=os.environ.get("PATH")) is None:
            raise MeansError(f"There is no program {command[0]!r} here.")
        try:
            return await asyncio.create_subprocess_exec(
                *bound,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=asyncio.subprocess.STDOUT,
                env=reduced(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            raise MeansError(f"{command[0]!r} cannot be run: {error.strerror or error}.") from None

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Reads on to the end, or it would stand still."""
        assert process.stdout is not None
        left = MOST_LOGGED
        with contextlib.ExitStack() as stack:
            self.log, sink = _log_of(self._name)
            stack.enter_context(sink)
            while data := await process.stdout.read(8192):
                if left and not self._answers:
                    # A disk that is full holds up no engine.
                    with contextlib.suppress(OSError):
                        sink.write(data[:left])
                    left -= min(left, len(data))

    async def stop(self) -> None:
        """Returns when it has been done. Raises ``MeansError``."""
        if self._stop:
            await self._stop_by_command()
        await self.aclose()

    async def _stop_by_command(self) -> None:
        # Nobody reads what it says, however much that is and whoever holds its output open.
        process = await self._run(self._stop, out=asyncio.subprocess.DEVNULL)
        try:
            async with asyncio.timeout(COMMAND_S):
                await process.wait()
        except TimeoutError:
            raise MeansError(f"Its stop command has not ended within {COMMAND_S:g} s.") from None
        finally:
            await _end(process)
        if process.returncode:
            raise MeansError(f"Its stop command ended with exit code {process.returncode}.")

    async def aclose(self) -> None:
        """Ends the process that is ours, and all of its group."""
        self._ending = True
        if self._process is not None:
            await _end(self._process)
        if self._reading is not None:
            self._reading.cancel()

    async def leave(self) -> None:
        """This worker stops. What a ``stop`` command would stop is left to the others."""
        if not self._stop:
            await self.aclose()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        # Its number may be another's by now.
        return
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()
    # What it started and left behind.
    _signal(process, signal.SIGKILL)


async def _sweep(process: asyncio.subprocess.Process) -> None:
    """Ends what an engine leaves behind as it ends: nobody would stop that, and it may hold the card."""
    # ``wait`` would wait for whoever holds its output open too.
    while process.returncode is None:  # noqa: ASYNC110 - nothing else tells of it
        await asyncio.sleep(SWEEP_S)
    # At once: later the number may be another's.
    _signal(process, signal.SIGKILL)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _log_of(name: str) -> tuple[Path | None, BinaryIO]:
    """A file that only this user can read, new and empty. None: there is no place for one, and nothing is kept."""
    folder = Path(tempfile.gettempdir()) / f"doublebuffer-{os.getuid()}"
    file = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.log"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return file, cast(BinaryIO, file.open("wb", buffering=0))
    except OSError:
        pass
    return None, BytesIO()
