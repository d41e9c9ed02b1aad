"""A spare that commands start and stop: in a process group of its own, with little of this worker's environment.

An engine that is this worker's own is started through ``worker.elastic_keeper``, which outlives a worker that is killed
for as long as it takes to end the engine and whatever that has started.

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
import sys
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
KEEPER = Path(__file__).with_name("elastic_keeper.py")
_KEEPER_S = 5.0
"""What a keeper has for itself, beside ``END_S`` for its engine."""
_LOOK_S = 0.05
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
        self._leash: int | None = None
        """Our end of the keeper's pipe. It is closed when this worker ends, whatever the worker dies of."""
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
        self._process = await (self._run(self._start) if self._stop else self._run_kept())
        self._reading = tasks.create_task(self._read(self._process))

    async def _run_kept(self) -> asyncio.subprocess.Process:
        theirs, ours = os.pipe()
        try:
            # Where the keeper is killed as well, a program that is no shell still ends with it.
            bound = [setpriv, "--pdeathsig", "TERM"] if (setpriv := shutil.which("setpriv")) else []
            keeper = [sys.executable, "-I", "-S", str(KEEPER), str(END_S), *bound]
            process = await self._run(self._start, by=keeper, standard_input=theirs)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._leash = ours
        return process

    @staticmethod
    async def _run(
        command: Sequence[str],
        *,
        by: Sequence[str] = (),
        standard_input: int = asyncio.subprocess.DEVNULL,
        out: int = asyncio.subprocess.PIPE,
    ) -> asyncio.subprocess.Process:
        if shutil.which(command[0], path=os.environ.get("PATH")) is None:
            raise MeansError(f"There is no program {command[0]!r} here.")
        try:
            return await asyncio.create_subprocess_exec(
                *by,
                *command,
                stdin=standard_input,
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
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None
            if self._process is not None:
                await _gone(self._process, END_S + _KEEPER_S)
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


async def _gone(process: asyncio.subprocess.Process, within_s: float) -> None:
    """Returns when it has ended, or when it had time enough for that."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            # ``wait`` would wait for whoever holds its output open too.
            while process.returncode is None:  # noqa: ASYNC110 - nothing else tells of it
                await asyncio.sleep(_LOOK_S)


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
