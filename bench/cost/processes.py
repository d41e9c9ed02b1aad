"""Processes of a measurement: started on one core, measured by what the kernel counts for them, ended at the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.processes import BenchError, end_process

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Site:
    """Starts processes on one core. ``folder``: for what they write, their logs among it."""

    def __init__(self, stack: AsyncExitStack, folder: Path, core: int) -> None:
        self._stack = stack
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._core = core
        self._count = 0

    async def start(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, core: int | None = None
    ) -> asyncio.subprocess.Process:
        """What it prints goes to a file. It is ended with the site. Raises ``BenchError``."""
        self._count += 1
        log = self.folder / f"{self._count}-{Path(command[0]).name}.log"
        return await self._stack.enter_async_context(
            _running([*_pinned(self._core if core is None else core), *command], log, env or {})
        )

    async def talk(self, command: Sequence[str], *, core: int) -> asyncio.subprocess.Process:
        """As ``start``, for one that is talked to by standard input and output."""
        return await self._stack.enter_async_context(_talking([*_pinned(core), *command]))


def _pinned(core: int) -> list[str]:
    return ["taskset", "--cpu-list", str(core)]


@asynccontextmanager
async def _running(
    command: Sequence[str], log: Path, env: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("wb") as out:
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **env}
            )
        except OSError as error:
            raise BenchError(f"{command[0]} cannot be started: {error.strerror or error}.") from None
        try:
            yield process
        finally:
            await end_process(process)


@asynccontextmanager
async def _talking(command: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 30)
    try:
        yield process
    finally:
        await end_process(process)


def family(roots: Iterable[int]) -> set[int]:
    """These processes and all that descend from them."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (told := _stat(int(entry))):
            parents[int(entry)] = int(told[1])
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found


def cpu_s(roots: Iterable[int]) -> float:
    """Seconds of CPU that these processes and their descendants have had, those that ended among them."""
    total = 0.0
    for pid in family(roots):
        if told := _stat(pid):
            total += sum(_thread_s(pid, thread) for thread in _listed(f"/proc/{pid}/task"))
            total += (int(told[13]) + int(told[14])) / _TICKS
    return total


def memory_bytes(roots: Iterable[int]) -> int:
    """What these processes and their descendants hold in memory, each of its own."""
    return sum(_resident(pid) for pid in family(roots))


def _resident(pid: int) -> int:
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _thread_s(pid: int, thread: str) -> float:
    """In nanoseconds where the kernel tells them, which its ticks of 10 ms are too coarse for."""
    try:
        return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _stat(pid: int) -> list[str]:
    """From the state on: [1] is the parent; [11], [12] its own ticks; [13], [14] those of children that have ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
