"""``doublebuffer up``: gateway and worker in one process, on whatever engine this machine has."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from buffer.backend import BackendSpec
from buffer.keys import Keys
from buffer.load import BackendState, publish_state
from buffer.setting_sources import SettingsError
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable
from buffer.telemetry import Telemetry
from doublebuffer.counting import telling_of
from doublebuffer.crew import Hiring, check_crew
from doublebuffer.discovery import PLACES, Place, appears, discover
from doublebuffer.metrics import metrics_served
from doublebuffer.private import private_redis
from doublebuffer.serving import bind, serve, url_of
from doublebuffer.signals import stop_on_signals
from doublebuffer.simulated import LAST_ANSWERS_S, simulated_engine
from doublebuffer.starting import connect, look, refuse_ourselves
from doublebuffer.telling import banner
from gateway.app import create_app
from worker.runner import Worker

FORGOTTEN_S = 0.1
"""Lifetime of the last word on the simulated engine: its models leave the lists at once."""


async def run_up(settings: Settings, arguments: Sequence[str]) -> None:
    """Serves until a signal. ``arguments``: of the command line, for further workers. Raises ``SettingsError``."""
    with stop_on_signals() as stop:
        await live(settings, stop, arguments=arguments)


async def live(
    settings: Settings, stop: asyncio.Event, places: Sequence[Place] = PLACES, *, arguments: Sequence[str] = ()
) -> None:
    """Serves until ``stop`` is set. ``places``: where engines are looked for. Raises ``SettingsError``."""
    if settings.processes > 1:
        raise SettingsError("DOUBLEBUFFER_PROCESSES is for `doublebuffer gateway`; `doublebuffer up` is one process.")
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(bind(settings.host, settings.port))
        if settings.redis_url is None and settings.embedded == "auto":
            own_url = await stack.enter_async_context(private_redis())
            settings = settings.model_copy(update={"redis_url": own_url})
        check_crew(settings)
        store = await connect(settings)
        try:
            async with telling_of("doublebuffer", engines_near=True) as telemetry:
                await _House(settings, store, listener, url_of(listener), places, stop, telemetry, arguments).open()
        finally:
            await store.aclose()


@dataclass(slots=True)
class _House:
    settings: Settings
    store: Store
    listener: socket.socket
    url: str
    places: Sequence[Place]
    stop: asyncio.Event
    telemetry: Telemetry
    arguments: Sequence[str] = ()
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """The gateway has answered its last request: nobody needs the worker any more."""
    wrong: SettingsError | None = None
    """What came to light only with the gateway there to be asked: it ends in good order, then this is raised."""

    async def open(self) -> None:
        specs = self.settings.backends or await discover(self.places)
        async with metrics_served(self.settings, self.telemetry), asyncio.TaskGroup() as group:
            group.create_task(self._serve(specs))
            group.create_task(self._work(specs) if specs else self._work_simulated())
        if self.wrong:
            raise self.wrong

    def _with(self, specs: Sequence[BackendSpec]) -> Settings:
        return self.settings.model_copy(update={"backends": list(specs)})

    async def _serve(self, specs: Sequence[BackendSpec]) -> None:
        app = create_app(self._with(specs), self.store, telemetry=self.telemetry, runs_batches=True)
        try:
            drain_s = self.settings.drain_seconds
            await serve(app, self.listener, self.stop, drain_s=drain_s, last_call=app.end_answers)
        finally:
            self.closed.set()

    async def _work(self, specs: Sequence[BackendSpec]) -> None:
        settings = self._with(specs)
        try:
            await self._tell(settings, simulated=False)
        except SettingsError as error:
            self.wrong = error
            self.stop.set()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(Worker(settings, self.store, telemetry=self.telemetry).run(self.closed))
            group.create_task(Hiring(self.settings, self.store, specs, self.arguments).run(self.closed))

    async def _work_simulated(self) -> None:
        """The simulated engine until a real one appears, then that one."""
        replaced = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._simulate(replaced))
            found = await appears(self.closed, self.places)
            replaced.set()
        if found:
            await self._work(found)

    async def _simulate(self, replaced: asyncio.Event) -> None:
        async with simulated_engine() as spec:
            settings = self._with([spec])
            settings = settings.model_copy(update={"drain_seconds": min(settings.drain_seconds, LAST_ANSWERS_S)})
            await self._tell(settings, simulated=True)
            await Worker(settings, self.store, telemetry=self.telemetry).run(replaced)
            gone = BackendState(name=spec.name, kind=spec.kind, up=False)
            with contextlib.suppress(StoreUnavailable):  # its last word then stands until its lifetime is over
                await publish_state(self.store, Keys(spec.pool, self.store.prefix), gone, FORGOTTEN_S)

    async def _tell(self, settings: Settings, *, simulated: bool) -> None:
        seen = await look(settings, settings.backends)
        refuse_ourselves(seen)
        print(banner(settings, self.url, seen, simulated=simulated), flush=True)
