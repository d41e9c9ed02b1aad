"""Further workers of ``doublebuffer up``: started while jobs wait that no worker has hands for, taken away when idle.

Each is a process: ``doublebuffer worker``, on the same Redis. What one worker cannot do more of is computing, on the
one core that its loop has; places at the engines are shared by all workers anyway. So another task beside it would do
nothing, and another process does as much again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from prometheus_client.multiprocess import mark_process_dead

from buffer.backend import BackendSpec
from buffer.lanes import Lanes
from buffer.load import BackendState, read_states
from buffer.setting_sources import SettingsError, variable_of
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable
from buffer.timing import wait_for
from buffer.worker_range import worker_range
from doublebuffer.counted import COUNTERS
from policy.crew import Crew, Place, lacks

log = logging.getLogger("doublebuffer.command")

LOOK_S = 1.0
SLACK_S = 5.0
"""What a worker may take beyond its drain time before it is killed."""


def check_crew(settings: Settings) -> None:
    """Raises ``SettingsError`` where several workers would have no store to meet in."""
    if worker_range(settings.workers)[1] > 1 and settings.redis_url is None:
        raise SettingsError(
            f"{variable_of('workers')} is {settings.workers}, and several workers meet in a Redis: "
            "set REDIS_URL, or install redis-server."
        )


@dataclass(slots=True)
class Hiring:
    """The workers beside the one in this process. ``arguments``: of the command line, behind the command."""

    settings: Settings
    store: Store
    specs: Sequence[BackendSpec]
    arguments: Sequence[str]
    others: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop``; then all of them drain, and end."""
        least, most = worker_range(self.settings.workers)
        if most == 1:
            return
        crew = Crew(least, most)
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.TaskGroup() as group:
                while not stop.is_set():
                    self.others = [one for one in self.others if one.returncode is None]
                    try:
                        lacking, running = await self._look()
                    except StoreUnavailable:
                        lacking, running = False, 0
                    change = crew.step(1 + len(self.others), lacking=lacking, running=running, now_at=clock())
                    if change > 0:
                        await self._start(group)
                    elif change < 0:
                        self._dismiss(self.others.pop())
                    await wait_for(stop, LOOK_S)
                for one in self.others:
                    self._dismiss(one)
        finally:
            for one in self.others:
                if one.returncode is None:
                    one.kill()

    async def _look(self) -> tuple[bool, int]:
        """Whether jobs wait beside free places, and how many jobs are under way. Raises ``StoreUnavailable``."""
        places: list[Place] = []
        running = 0
        for pool in sorted({spec.pool for spec in self.specs}):
            lanes = Lanes(self.store, pool)
            for state in await read_states(self.store, lanes.keys):
                place, jobs = await _place(lanes, state)
                running += jobs
                if state.up and not state.breaker_open and not state.fallback_for:
                    places.append(place)
        return lacks(places), running

    async def _start(self, group: asyncio.TaskGroup) -> None:
        # Where this command is killed, nobody else would end it.
        bound = [setpriv, "--pdeathsig", "TERM"] if (setpriv := shutil.which("setpriv")) else []
        given = ["--metrics-port", "0"]
        if self.settings.redis_url is not None and self.settings.redis_url.startswith("unix:"):
            given += ["--redis-url", self.settings.redis_url]
        environment = dict(os.environ)
        if not self.settings.backends:
            # They were found here. In the environment, for they may hold keys.
            environment[variable_of("backends")] = json.dumps(msgspec.to_builtins(list(self.specs)))
        process = await asyncio.create_subprocess_exec(
            *(*bound, sys.executable, "-m", "doublebuffer", "worker", *self.arguments, *given),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            env=environment,
            # Ctrl-C is for the command: it tells its workers in good order.
            start_new_session=True,
        )
        self.others.append(process)
        log.info("worker process %d starts: jobs wait, and the engines have room", process.pid)
        group.create_task(self._see_off(process))

    async def _see_off(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        log.info("worker process %d has ended with %d", process.pid, code)
        if folder := os.environ.get(COUNTERS):
            mark_process_dead(process.pid, folder)  # type: ignore[no-untyped-call]

    def _dismiss(self, process: asyncio.subprocess.Process) -> None:
        """It finishes what it has in hand, and is killed if that takes longer than it may."""
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        most_s = self.settings.drain_seconds + SLACK_S
        asyncio.get_running_loop().call_later(most_s, _kill, process)


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        log.warning("worker process %d did not end in time and is killed", process.pid)
        process.kill()


async def _place(lanes: Lanes, state: BackendState) -> tuple[Place, int]:
    """What it has to give, and the jobs that it has. Raises ``StoreUnavailable``."""
    load = await lanes.load(state.name)
    seen = await lanes.peek(sorted(state.queues()))
    # Some places are kept free for the fast ones.
    free = state.limit - max(1, state.limit // 8) - load.jobs if state.limit > 1 else 1 - load.jobs
    oldest_s = (seen.now_us - seen.oldest_arr_us) / 1e6 if seen.waiting and seen.oldest_arr_us else 0.0
    full = bool(state.kv_tokens) and load.kv > 0.8 * state.kv_tokens
    return Place(free=free, oldest_s=oldest_s, full=full), load.jobs
