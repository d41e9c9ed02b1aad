"""The processes of a run: started, killed, started again at the same place. What they wrote is kept in one folder."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.rig.processes import NO_TLS, clean_environment
from tests.rig.redis_server import RedisServer, redis_binary

AGAIN_S = 0.3
"""Pause before a process that could not start (its Redis was away) is started again."""
END_S = 10.0


class Child:
    """``python -m ARGUMENTS`` that is wanted to run, or not. One that ends by itself is started again, and counted."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.killed_at: list[float] = []
        """``time.time()`` of each end that was meant."""
        self.crashes: list[str] = []
        """Ends that nobody meant, of a process that had come up."""
        self._arguments = arguments
        self._environment = clean_environment(environment) | NO_TLS | {"PYTHONUNBUFFERED": "1"}
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._ended = asyncio.Event()
        self._before = 0
        """Bytes of standard output that were there before it was started."""

    def was_killed(self, since: float, until: float) -> bool:
        """Whether somebody ended it between two instants of ``time.time()``."""
        return any(since < at < until for at in self.killed_at)

    @property
    def pid(self) -> int | None:
        """None while it is down."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process else None

    @property
    def up(self) -> bool:
        return self.pid is not None and self._spoke

    @property
    def _spoke(self) -> bool:
        """Before its first line it has not come up: Redis was away, or it is still at it."""
        return self.out.exists() and self.out.stat().st_size > self._before

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    @property
    def out(self) -> Path:
        return self._folder / f"{self.name}.out"

    async def keep_running(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                await self._wanted.wait()
                self._before = self.out.stat().st_size if self.out.exists() else 0
                code = await self._run()
                self._ended.set()
                if not self._wanted.is_set():
                    continue
                if self._spoke:
                    self.crashes.append(f"{self.name} ended by itself with {code} at {time.time():.3f}")
                await asyncio.sleep(AGAIN_S)
        finally:
            await self._end()

    async def _run(self) -> int:
        with self.out.open("ab") as out, self.log.open("ab") as log:
            self._ended.clear()
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *self._arguments),
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )
        return await self._process.wait()

    async def down(self, number: signal.Signals, for_s: float) -> None:
        """Ends it, and starts it again after ``for_s`` seconds without it."""
        self._wanted.clear()
        self.killed_at.append(time.time())
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
            await self._ended.wait()
        await asyncio.sleep(for_s)
        self._wanted.set()

    async def freeze(self, for_s: float) -> None:
        """Stops it where it is, and lets it go on after ``for_s`` seconds."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(for_s)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await process.wait()
        if process.returncode is None:
            self.crashes.append(f"{self.name} did not end within {END_S:g} s of SIGTERM")
            process.kill()
            await process.wait()


class Redis:
    """A Redis that writes an append-only file."""

    def __init__(self, folder: Path, fsync: str) -> None:
        folder.mkdir()
        self.emptied_at: list[float] = []
        self._server = RedisServer(redis_binary(), folder, ("--appendonly", "yes", "--appendfsync", fsync))

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def pid(self) -> int | None:
        return self._server.process.pid if self._server.process else None

    def was_emptied(self, since: float, until: float) -> bool:
        """Whether it lost all it had between two instants of ``time.time()``."""
        return any(since < at < until for at in self.emptied_at)

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)

    async def restart(self, number: signal.Signals, for_s: float, *, empty: bool) -> None:
        await asyncio.to_thread(self._stop, number)
        if empty:
            self.emptied_at.append(time.time())
            shutil.rmtree(self._server.folder / "appendonlydir", ignore_errors=True)  # from version 7
            (self._server.folder / "appendonly.aof").unlink(missing_ok=True)
        await asyncio.sleep(for_s)
        await self.start()

    async def freeze(self, for_s: float) -> None:
        process = self._server.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(for_s)
        finally:
            process.send_signal(signal.SIGCONT)

    def _stop(self, number: signal.Signals) -> None:
        process = self._server.process
        if process is not None:
            process.send_signal(number)
            process.wait(END_S)
            self._server.process = None

    def stop(self) -> None:
        self._server.stop()
