"""Looks at one back end again and again: is it there, what does it serve, how much does it take."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback

from backends.base import BackendError, Probe
from buffer.backend import ModelInfo
from buffer.load import BackendState, publish_state, read_workers
from buffer.store import StoreUnavailable
from buffer.timing import wait_for
from worker.engine import Engine
from worker.known import STATE_TTL_S
from worker.pool import Pool

log = logging.getLogger("doublebuffer.worker")

LOOK_UP_S = 5.0
LOOK_DOWN_S = 1.0
"""While it is down, so that it is missed for a second at most once it is back."""
ASK_AGAIN_S = (0.2, 0.5)
DEFECT = "What it answered to a look could not be read."
ITSELF = "It is Doublebuffer itself; jobs sent there would come back."


class Health:
    def __init__(self, pool: Pool, engine: Engine) -> None:
        self._pool = pool
        self._engine = engine
        self._told = 0
        self._queues: set[str] = set()
        self._unknown: set[str] = set()

    async def run(self) -> None:
        """The first look is at once; a refused job calls for another."""
        engine = self._engine
        while True:
            engine.look.clear()
            await self._look()
            try:
                await self._publish()
            except StoreUnavailable:
                self._pool.away()
            await wait_for(engine.look, LOOK_UP_S if engine.up else LOOK_DOWN_S)

    async def _look(self) -> None:
        engine = self._engine
        try:
            found = await self._probe()
        except BackendError as error:
            if engine.lost(error.message):
                self._say_lost(error.message)
                self._pool.out_of_service(engine)
            return
        except Exception as error:  # noqa: BLE001 - the border of a look: a defect of ours loses this back end alone
            if engine.lost(DEFECT):
                where = traceback.extract_tb(error.__traceback__)[-1]
                what = type(error).__name__
                log.error("back end %s: a look failed: %s at %s:%s", engine.name, what, where.filename, where.lineno)
                self._pool.out_of_service(engine)
            return
        if found.doublebuffer:
            if engine.error != ITSELF:
                log.error("back end %s is not used: %s", engine.name, ITSELF)
            if engine.lost(ITSELF):
                self._pool.out_of_service(engine)
        elif engine.looked(found):
            count = len(found.models)
            log.info("back end %s is up: %d %s", engine.name, count, "model" if count == 1 else "models")

    def _say_lost(self, error: str) -> None:
        """Of a spare that is not meant to run there is nothing to say: whoever starts and stops it tells of that."""
        engine = self._engine
        if not engine.spec.spare:
            log.warning("back end %s is down: %s", engine.name, error)
        elif engine.spare in ("up", "closing"):
            log.info("back end %s is down: %s", engine.name, error)

    async def _probe(self) -> Probe:
        """A back end that was there is asked again, unless nobody listens there any more: a look that fails otherwise
        may be this machine's own trouble. Raises ``BackendError``."""
        for pause_s in ASK_AGAIN_S:
            try:
                return await self._engine.backend.probe()
            except BackendError as error:
                if not self._engine.up or error.code == "unreachable":
                    raise
            await asyncio.sleep(pause_s)
        return await self._engine.backend.probe()

    async def _publish(self) -> None:
        """Tells gateways and other workers; learns what these have seen."""
        engine, lanes = self._engine, self._pool.lanes
        told = await self._pool.hear()
        self._stand_in()
        for state in told:
            if state.name != engine.name:
                continue
            engine.learning.adopt(state.learned, engine.served)
            # What this worker told itself the last time is no news.
            if state.limit != self._told:
                engine.adopt(state.limit)
        if not engine.up and any(state.up for state in told if state.name == engine.name):
            await self._warn()
        self._told = engine.told_limit
        await publish_state(lanes.store, lanes.keys, self.state(), STATE_TTL_S)

    async def _warn(self) -> None:
        """The first to find a back end away has all others look, before they lose attempts at it."""
        lanes = self._pool.lanes
        workers = [worker.id for worker in await read_workers(lanes.store, lanes.keys)]
        await lanes.look([worker for worker in workers if worker != self._pool.worker], self._engine.name)

    def _stand_in(self) -> None:
        """A back end that this one stands in for may be another worker's, or not there any more."""
        engine = self._engine
        if engine.stand_in is None:
            return
        engine.stand_in.hear(self._pool.states)
        if (unknown := set(engine.stand_in.unknown())) - self._unknown:
            names = ", ".join(sorted(unknown))
            log.warning("back end %s stands in for %s, of which no worker tells anything", engine.name, names)
        self._unknown = unknown
        queues = set(engine.queues())
        if queues - self._queues:
            engine.wake.set()
            engine.on_news()
        self._queues = queues

    def state(self) -> BackendState:
        engine = self._engine
        found = engine.probe
        return BackendState(
            name=engine.name,
            kind=engine.spec.kind,
            up=engine.up,
            breaker_open=engine.breaker.state(engine.clock()) == "open",
            trial=engine.breaker.state(engine.clock()) == "half-open",
            models=engine.models or self._told_models(),
            aliases=engine.spec.models,
            slots=(found.slots if found else None) or 0,
            limit=engine.told_limit,
            in_turn=engine.in_turn,
            kv_tokens=engine.spec.kv_tokens or (found.kv_tokens if found else None) or 0,
            probed_at=time.time(),
            loaded=found.loaded if found else [],
            simulated=bool(found and found.simulated),
            error=(not engine.up and engine.spare_error) or engine.error,
            spare=engine.spare,
            comes_in_s=engine.spec.start_timeout_seconds if engine.spare else 0.0,
            fallback_for=engine.spec.fallback_for,
            learned=engine.learning.told(engine.served),
        )

    def _told_models(self) -> list[ModelInfo]:
        """Of a spare that this worker has not seen up: what another has."""
        name = self._engine.name
        told = (state.models for state in self._pool.states if state.name == name) if self._engine.spare else ()
        return next(iter(told), [])
