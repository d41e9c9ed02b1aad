"""Several gateway processes on one port: started, started again when one dies, ended together.

They inherit one listening socket, so a connection is never lost to a process that has just died. Their counters are
files in one folder, of which any process tells the sum.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path

from prometheus_client.multiprocess import mark_process_dead

from buffer.settings import Settings

log = logging.getLogger("doublebuffer.fleet")

WRONG_SETTING = 2
RESTART_S = (0.2, 1.0, 5.0, 15.0)
"""Pauses before a process that died young is started again; the last one holds for all further."""
GROWN_UP_S = 30.0
SLACK_S = 5.0
"""What a process may take beyond its drain time before it is killed."""


class Fleet:
    """``DOUBLEBUFFER_PROCESSES`` children of this process."""

    def __init__(self, settings: Settings, listener: socket.socket, arguments: list[str]) -> None:
        self._settings = settings
        self._listener = listener
        self._arguments = arguments
        self._metrics = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
        self._exit_code = 0

    async def run(self, stop: asyncio.Event) -> int:
        """Until ``stop``, or until a child says that a setting is wrong; the exit code."""
        own = self._make_metrics_folder()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._settings.processes):
                    group.create_task(self._keep_running(number, stop))
        finally:
            if own:
                shutil.rmtree(own, ignore_errors=True)
        return self._exit_code

    def _make_metrics_folder(self) -> str:
        """The children find it in their environment; the path of one that is ours to remove, else empty."""
        own = "" if self._metrics else tempfile.mkdtemp(prefix="doublebuffer-metrics-")
        self._metrics = self._metrics or own
        Path(self._metrics).mkdir(parents=True, exist_ok=True)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = self._metrics
        return own

    async def _keep_running(self, number: int, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        young_deaths = 0
        while not stop.is_set():
            began = loop.time()
            code = await self._run_one(stop)
            if stop.is_set():
                return
            if code == WRONG_SETTING:
                self._exit_code = WRONG_SETTING
                stop.set()
                return
            young_deaths = young_deaths + 1 if loop.time() - began < GROWN_UP_S else 1
            pause_s = RESTART_S[min(young_deaths, len(RESTART_S)) - 1]
            log.warning("gateway process %d ended with %d; another starts in %g s", number, code, pause_s)
            try:
                async with asyncio.timeout(pause_s):
                    await stop.wait()
            except TimeoutError:
                continue

    async def _run_one(self, stop: asyncio.Event) -> int:
        descriptor = self._listener.fileno()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "doublebuffer", *self._arguments, "--descriptor", str(descriptor)),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[descriptor],
        )
        try:
            await self._until_ended(process, stop)
        finally:
            if process.returncode is None:
                process.kill()
            code = await process.wait()
            mark_process_dead(process.pid, self._metrics)  # type: ignore[no-untyped-call]
        return code

    async def _until_ended(self, process: asyncio.subprocess.Process, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            ended = group.create_task(process.wait())
            told = group.create_task(stop.wait())
            await asyncio.wait({ended, told}, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if not ended.done():
                process.send_signal(signal.SIGTERM)
                try:
                    async with asyncio.timeout(self._settings.drain_seconds + SLACK_S):
                        await asyncio.shield(ended)
                except TimeoutError:
                    log.warning("gateway process %d did not end in time and is killed", process.pid)
                    process.kill()
