"""One worker: a group of tasks for each pool of back ends, and the order in which they stop."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from backends.base import Backend
from backends.make import make
from buffer.embed import pool_of
from buffer.lanes import Lanes
from buffer.load import withdraw_worker
from buffer.model_records import Families
from buffer.replies import ReplyWriter
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable
from buffer.telemetry import Telemetry
from worker.breaker import Breaker
from worker.desk import Desk, EmbeddingPool
from worker.dispatch import Dispatch
from worker.doorbell import Controls, Doorbell
from worker.drain import Drain
from worker.elastic import Elastic
from worker.embedding import begin_drains
from worker.engine import Engine
from worker.hand import Hand
from worker.health import Health
from worker.leases import Leases
from worker.pool import Pool
from worker.reaper import Reaper
from worker.standing import Standing

log = logging.getLogger("doublebuffer.worker")

P = TypeVar("P", bound=Pool)

SETTLE_S = 5.0
"""After the drain time: how long the last jobs may take to be settled or handed back."""


class Worker:
    """Turns waiting jobs into answers, until it is told to stop.

    ``backends``: made from the settings unless given; closed at the end. ``name``: of this worker, unique; made up
    unless given.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        backends: Sequence[Backend] | None = None,
        telemetry: Telemetry | None = None,
        name: str = "",
    ) -> None:
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._settings = settings
        self._store = store
        self._telemetry = telemetry or Telemetry()
        self._backends = list(self._make() if backends is None else backends)
        names = sorted({backend.spec.pool for backend in self._backends}) or ["default"]
        self.pools: list[Pool] = [self._pool(store, name) for name in names]
        """Of chats, then of embeddings."""
        self._beside = [
            (chats, self._embedding_pool(store, name, chats)) for name, chats in zip(names, self.pools, strict=True)
        ]
        self.pools += [embeddings for _, embeddings in self._beside]

    def _make(self) -> Iterable[Backend]:
        families = Families(self._settings.models)
        for spec in self._settings.backends:
            yield make(
                spec,
                connect_timeout_s=self._settings.connect_timeout_seconds,
                first_token_timeout_s=self._settings.first_token_timeout_seconds,
                stall_timeout_s=self._settings.stall_timeout_seconds,
                families=families,
            )

    def _pool(self, store: Store, name: str) -> Pool:
        settings = self._settings
        auto = settings.max_in_flight == "auto"
        engines = [
            Engine(
                backend,
                breaker=Breaker(settings.breaker_failures, settings.breaker_cooldown_seconds),
                max_in_flight=None if auto else int(settings.max_in_flight),
            )
            for backend in self._backends
            if backend.spec.pool == name
        ]
        for engine in engines:
            if engine.stand_in is not None:
                engine.stand_in.own = {other.name: other for other in engines if other is not engine}
        return self._filled(Pool, Lanes(store, name), engines)

    def _embedding_pool(self, store: Store, name: str, chats: Pool) -> EmbeddingPool:
        """Its desks stand at the same engines as the chats."""
        settings = self._settings
        pool = self._filled(EmbeddingPool, Lanes(store, pool_of(name)), [])
        for engine in chats.engines:
            desk = Desk(engine, Breaker(settings.breaker_failures, settings.breaker_cooldown_seconds))
            engine.on_news = desk.wake.set
            pool.desks.append(desk)
        return pool

    def _filled(self, form: type[P], lanes: Lanes, engines: list[Engine]) -> P:
        hands: dict[str, Hand] = {}
        renew_now = asyncio.Event()

        def lost(job: str) -> None:
            if job in hands:
                hands[job].line()[-1].stop("lost")

        return form(
            worker=self.name,
            settings=self._settings,
            lanes=lanes,
            replies=ReplyWriter(lanes, lease_s=self._settings.lease_seconds, on_lost=lost, on_orphan=renew_now.set),
            telemetry=self._telemetry,
            engines=engines,
            hands=hands,
            standing=Standing(lanes, self.name, self._settings.lease_seconds),
            renew_now=renew_now,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Works until ``stop`` is set; then takes nothing new, lets what runs finish for the drain time, and hands back
        the rest.

        A cancellation ends it at once, without a word: to the others it is as dead as after a crash.
        """
        log.info("worker %s: back ends %s", self.name, ", ".join(b.spec.name for b in self._backends) or "none")
        try:
            async with asyncio.TaskGroup() as services:
                running = [services.create_task(service) for pool in self.pools for service in self._services(pool)]
                running += [services.create_task(spare.run()) for spare in self._spares()]
                running.append(services.create_task(self._telemetry.recent.run(self._store)))
                await self._work(stop)
                for task in running:
                    task.cancel()
                await self._leave()
        finally:
            for backend in self._backends:
                await backend.aclose()
        log.info("worker %s has stopped", self.name)

    def _spares(self) -> Iterable[Elastic]:
        for chats, embeddings in self._beside:
            for engine in chats.engines:
                if engine.spec.spare:
                    yield Elastic(chats, engine, [chats.lanes, embeddings.lanes])

    async def _leave(self) -> None:
        """So that nobody counts on this worker until its presence has run out."""
        for pool in self.pools:
            with suppress(StoreUnavailable):
                await withdraw_worker(pool.lanes.store, pool.lanes.keys, self.name)

    @staticmethod
    def _services(pool: Pool) -> list[Coroutine[None, None, None]]:
        """What must go on as long as any job is in hand."""
        return [
            Leases(pool).run(),
            Controls(pool).run(),
            Doorbell(pool).run(),
            Reaper(pool).run(),
            pool.replies.run(),
            *(Health(pool, engine).run() for engine in pool.engines),
        ]

    async def _work(self, stop: asyncio.Event) -> None:
        """Drains and jobs. Ends when the drains have stopped and no job is left, or when the time for that is over."""
        try:
            async with asyncio.timeout(None) as bound, asyncio.TaskGroup() as around:
                ending = around.create_task(self._stopping(stop, bound))
                async with asyncio.TaskGroup() as jobs:
                    jobs.create_task(stop.wait())
                    for pool in self.pools:
                        dispatch = Dispatch(pool, jobs)
                        for engine in pool.engines:
                            jobs.create_task(Drain(pool, engine, dispatch).run(), name=f"drain {engine.name}")
                        if isinstance(pool, EmbeddingPool):
                            begin_drains(pool, jobs)
                ending.cancel()
        except TimeoutError:
            left = sum(len(pool.hands) for pool in self.pools)
            log.error("worker %s stops with %d jobs in hand; others take them over", self.name, left)

    async def _stopping(self, stop: asyncio.Event, bound: asyncio.Timeout) -> None:
        await stop.wait()
        running = sum(len(pool.hands) for pool in self.pools)
        log.info("worker %s stops; %d jobs have %g s to finish", self.name, running, self._settings.drain_seconds)
        for pool in self.pools:
            pool.stopping = True
            pool.wake()
        await asyncio.sleep(self._settings.drain_seconds)
        for pool in self.pools:
            for hand in list(pool.hands.values()):
                hand.stop("drain")
        bound.reschedule(asyncio.get_running_loop().time() + SETTLE_S)
