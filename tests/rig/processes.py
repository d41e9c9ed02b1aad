"""Doublebuffer's commands as the real processes that an operator starts, and what they wrote."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import httpx

START_S = 60.0
"""Within which a process has started, on a machine whose cores have much else to do."""
RUN_S = 30.0
"""Within which one that ends by itself has done so."""
END_S = 45.0

_OURS = re.compile(
    r"^(DOUBLEBUFFER_|REDIS_URL$|OLLAMA_|VLLM_BASE_URL$|RATE_LIMIT_|USE_REDIS_QUEUE$|PROMETHEUS_MULTIPROC_DIR$)"
)

NO_TLS = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
"""For our own processes, which speak no TLS in a test: each reads all the world's certificates when it starts, a tenth
of what that costs.
"""


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any setting of ours, and with ``extra``."""
    return {name: value for name, value in os.environ.items() if not _OURS.match(name)} | dict(extra or {})


class Process:
    """One running command. Its output is kept in ``out`` (standard output) and ``log`` (standard error)."""

    def __init__(self, child: asyncio.subprocess.Process, directory: Path, command: str) -> None:
        self._child = child
        self._directory = directory
        self._kept: dict[str, str] = {}
        self.command = command
        self.pid = child.pid

    @property
    def out(self) -> str:
        return self._written("out")

    @property
    def log(self) -> str:
        return self._written("log")

    def _written(self, name: str) -> str:
        kept = self._kept.get(name)
        return (self._directory / name).read_text(errors="replace") if kept is None else kept

    def keep(self) -> None:
        """What it wrote can still be read after its files are gone."""
        self._kept = {name: self._written(name) for name in ("out", "log")}

    @property
    def url(self) -> str:
        """The address it said it listens on, which tells a port that was picked. Raises ``LookupError`` before that."""
        found = re.search(r"^  (?:address|metrics) +(http://[^\s/]+)", self.out, re.MULTILINE)
        if not found:
            raise LookupError(f"{self.command} has told no address")
        return found[1]

    @property
    def exit_code(self) -> int | None:
        return self._child.returncode

    async def has_said(self, pattern: str, *, within_s: float = START_S) -> re.Match[str]:
        """Waits until a line of standard output fits. Raises ``AssertionError`` with both outputs if it never does."""
        try:
            async with asyncio.timeout(within_s):
                while not (found := re.search(pattern, self.out, re.MULTILINE)):
                    self._still_there()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{self.command} never said {pattern!r}\n{self._heard()}") from None
        return found

    async def is_healthy(self, path: str = "/health", *, within_s: float = START_S) -> None:
        """Waits until a GET gives 200; ``/health/ready`` also waits for Redis and a worker."""
        await self.has_said(r"^  (?:address|metrics) ", within_s=within_s)
        last = "no answer"
        try:
            async with asyncio.timeout(within_s), httpx.AsyncClient(trust_env=False, timeout=5) as client:
                while True:
                    self._still_there()
                    with contextlib.suppress(httpx.HTTPError):
                        answer = await client.get(self.url + path)
                        if answer.status_code == 200:
                            return
                        last = f"{answer.status_code} {answer.text[:200]}"
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{self.command}: {path} gave {last}\n{self._heard()}") from None

    def send(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def freeze(self) -> None:
        """It keeps all that it has and does nothing, until ``thaw``."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """As the kernel would end it: nothing is handed back."""
        self._child.kill()

    async def ended(self, *, within_s: float = END_S) -> int:
        """Its exit code, once it has ended."""
        async with asyncio.timeout(within_s):
            return await self._child.wait()

    async def stop(self, *, within_s: float = END_S) -> int:
        """SIGTERM, and its exit code."""
        if self._child.returncode is None:
            self.send(signal.SIGTERM)
        return await self.ended(within_s=within_s)

    def _still_there(self) -> None:
        if self._child.returncode is not None:
            raise AssertionError(f"{self.command} ended with {self._child.returncode}\n{self._heard()}")

    def _heard(self) -> str:
        return f"--- out\n{self.out[-4000:]}\n--- log\n{self.log[-4000:]}"


@contextlib.asynccontextmanager
async def run_command(
    command: str,
    *flags: str,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> AsyncIterator[Process]:
    """``doublebuffer COMMAND FLAGS`` until the block ends; then SIGTERM, and SIGKILL if it does not listen.

    ``directory``: where it runs, and finds its ``doublebuffer.toml``; by default an empty one.
    """
    with tempfile.TemporaryDirectory(prefix=f"doublebuffer-{command}-") as own:
        files = Path(own)
        here = directory or files
        with (files / "out").open("wb") as out, (files / "log").open("wb") as log:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "doublebuffer", command, *flags),
                cwd=here,
                env=clean_environment(environment) | NO_TLS | {"PYTHONUNBUFFERED": "1"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )
        process = Process(child, files, f"doublebuffer {command}")
        try:
            yield process
        finally:
            await _end(child)
            process.keep()


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.terminate()
        try:
            async with asyncio.timeout(5):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()


async def run_to_end(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, directory: Path, within_s: float = RUN_S
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``doublebuffer COMMAND…``, which ends by itself."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "doublebuffer", *command),
        cwd=directory,
        env=clean_environment(environment) | NO_TLS,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within_s):
            out, log = await child.communicate()
    finally:
        await _end(child)
    assert child.returncode is not None
    return child.returncode, out.decode(), log.decode()
