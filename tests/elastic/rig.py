"""Spares that a test can start, stop and break."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from buffer.backend import BackendSpec
from buffer.holding import hold
from buffer.lanes import Lanes
from buffer.load import BackendState, read_states
from buffer.store import Store
from policy import spares
from tests.rig.redis_server import free_port
from tests.rig.scripted import Scripted
from tests.worker.rig import Crew, settings, worker
from worker import elastic, health
from worker.elastic_means import MeansError

MODEL = "m-oai"
CONFIG = settings(window_ms=0.0, lease_seconds=1.5)


class Site:
    """A scripted engine that can be started and stopped, by whichever worker. Counts what was asked of it."""

    def __init__(self, *, own_process: bool = False) -> None:
        self.own_process = own_process
        self.engine = Scripted("openai", port=free_port())
        self.starts = 0
        self.stops = 0
        self.begins = asyncio.Event()
        """Set: a start is let go on."""
        self.begins.set()
        self.broken = ""
        self.running = False

    def spec(self, **more: Any) -> BackendSpec:
        fields: dict[str, Any] = {"start": ["start"], "models": {MODEL: MODEL}, "idle_stop_seconds": 0.3}
        return BackendSpec(name="spare", kind="openai", url=self.engine.url, **(fields | more))

    async def begin(self, wanted: Callable[[], bool]) -> None:
        self.starts += 1
        if self.broken:
            raise MeansError(self.broken)
        await self.begins.wait()
        if not wanted():
            return
        assert not self.running, "it was started a second time"
        self.running = True
        await self.engine.__aenter__()

    async def end(self) -> None:
        if self.running:
            self.running = False
            await self.engine.__aexit__()

    async def close(self) -> None:
        await self.end()


class Remote:
    """A worker's means to start and stop a ``Site``."""

    failure = ""
    log = None

    def __init__(self, site: Site) -> None:
        self._site = site
        self.here = False

    @property
    def own_process(self) -> bool:
        return self._site.own_process

    def answers(self) -> None:
        return

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        del tasks
        self.here = self.own_process
        await self._site.begin(lambda: self.here or not self.own_process)

    async def stop(self) -> None:
        if self._site.running:
            self._site.stops += 1
        self.here = False
        await self._site.end()

    async def leave(self) -> None:
        if self.here:
            self.here = False
            await self._site.end()


@asynccontextmanager
async def a_site(monkeypatch: pytest.MonkeyPatch, *, own_process: bool = False) -> AsyncIterator[Site]:
    """Everything happens within fractions of a second."""
    site = Site(own_process=own_process)
    monkeypatch.setattr(elastic, "means_of", lambda _: Remote(site))
    monkeypatch.setattr(elastic, "LOOK_S", 0.05)
    monkeypatch.setattr(elastic, "LEAST_LEASE_S", 1.0)
    monkeypatch.setattr(elastic, "FORGOTTEN_S", 0.3)
    monkeypatch.setattr(spares, "CLOSING_S", 0.3)
    monkeypatch.setattr(spares, "AGAIN_S", (0.5,))
    monkeypatch.setattr(health, "LOOK_DOWN_S", 0.1)
    try:
        yield site
    finally:
        await site.close()


async def started(store: Store, *specs: object, crew: int = 1) -> Crew:
    return Crew([worker(store, specs, CONFIG) for _ in range(crew)])  # type: ignore[arg-type]


async def heard(crew: Crew, phase: str) -> None:
    """All workers know how the spare stands."""
    async with asyncio.timeout(30):
        while {engine.spare for worker in crew.workers for engine in worker.pools[0].engines} != {phase}:
            await asyncio.sleep(0.02)


async def end(crew: Crew) -> None:
    crew.stop.set()
    ended = await asyncio.gather(*crew.tasks, return_exceptions=True)
    assert not [error for error in ended if isinstance(error, Exception)]


async def state_of(lanes: Lanes, name: str = "spare") -> BackendState | None:
    return next((state for state in await read_states(lanes.store, lanes.keys) if state.name == name), None)


async def stands(lanes: Lanes, phase: str, *, within_s: float = 30.0) -> BackendState:
    """Waits until gateways hear that it stands so."""
    return await told(lanes, lambda state: state.spare == phase, within_s=within_s)


async def told(lanes: Lanes, fits: Callable[[BackendState], bool], *, within_s: float = 30.0) -> BackendState:
    state = None
    try:
        async with asyncio.timeout(within_s):
            while (state := await state_of(lanes)) is None or not fits(state):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it stands so: {state}") from None
    return state


async def nobody_decides(lanes: Lanes) -> bool:
    """Whether whoever comes may take the decision over. Takes it, if so, and gives it back."""
    held = await hold(lanes, "spare", "somebody", lease_s=1.0)
    await hold(lanes, "spare", "somebody", lease_s=0.0)
    return held.mine


def llama_command(port: int, *, model: str, after_s: float = 0.0) -> list[str]:
    """Starts the real llama.cpp server in the foreground."""
    return [sys.executable, str(Path(__file__).with_name("llama.py")), str(port), model, str(after_s)]
