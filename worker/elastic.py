"""A back end that is started when it is needed: what this worker sees of it, and does about it if it is the one to.

Of all workers that know the spare, one decides at a time, by a lease in the store that it renews with each look; the
rule is ``policy.spares``. The others hear at the same looks how it stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence

from buffer.backend import BackendSpec
from buffer.holding import Held, hold, refuse_waiting
from buffer.job import Failure
from buffer.lanes import Lanes
from buffer.load import BackendState, read_states
from buffer.store import StoreUnavailable
from policy.spares import Deed, Queue, Seen, Stand, Terms, step
from worker.elastic_command import Command
from worker.elastic_means import Means, MeansError
from worker.elastic_notes import differs, later, read, written
from worker.elastic_scale import Scale
from worker.elastic_sight import look_at, queues_of
from worker.engine import Engine
from worker.pool import Pool

log = logging.getLogger("doublebuffer.worker")

LOOK_S = 1.0
TRIES = 2
"""After so many starts in a row that failed, those who wait are told so."""
FORGOTTEN_S = 3.0
"""So long after the store knew nothing of a spare, the decision is left to a worker that is starting it."""
LEAST_LEASE_S = 10.0
"""A worker that has been silent for so long decides no more."""
_LEAVE_S = 2.0


def means_of(spec: BackendSpec) -> Means:
    """What starts and stops a spare, as its settings say."""
    return Scale(spec.scale) if spec.scale else Command(spec.name, spec.start, spec.stop)


class Elastic:
    """One spare in one worker. ``lanes``: where its jobs wait, of chats and of embeddings."""

    def __init__(self, pool: Pool, engine: Engine, lanes: Sequence[Lanes]) -> None:
        self._pool = pool
        self._engine = engine
        self._lanes = lanes
        self._means = means_of(engine.spec)
        spec = engine.spec
        self._terms = Terms(
            start_above_s=spec.start_above_seconds,
            idle_stop_s=spec.idle_stop_seconds,
            start_timeout_s=spec.start_timeout_seconds,
            own_process=self._means.own_process,
        )
        self._lease_s = max(LEAST_LEASE_S, pool.settings.lease_seconds)
        self._fence = 0
        self._stand = Stand()
        self._blank_at: float | None = None
        """Since when the store has known nothing of it; None: it does."""
        self._failure = ""
        self._doing: asyncio.Task[None] | None = None
        self._due: tuple[Deed, str] | None = None
        """What is to be done once it is noted, and as what."""

    async def run(self) -> None:
        """Until cancelled; then what is this worker's own ends."""
        try:
            async with asyncio.TaskGroup() as deeds:
                await self._pool.keep_on(lambda: self._look(deeds), every_s=LOOK_S)
        finally:
            await self._leave()

    async def _look(self, deeds: asyncio.TaskGroup) -> None:
        """Raises ``StoreUnavailable``."""
        engine = self._engine
        if engine.up:
            self._means.answers()
        wants = self._wants and (self._fence != 0 or not await self._is_forgotten())
        held = await self._hold(self._lease_s if wants else 0.0)
        noted = read(held.stand)
        if not held.mine:
            self._fence, self._due = 0, None
            await self._obey(noted)
            return
        known = noted
        if held.fence == self._fence or (self._fence and not held.stand):
            # This worker knows better than what was noted, which is done now and then, or than a store that forgot it.
            known = self._stand if not held.stand else later(noted, self._stand)
        self._fence = held.fence
        deed: Deed | None
        if self._due is not None and self._due[1] == noted.phase:
            # It was noted, and the word of that was lost.
            stand, deed = known, self._due[0]
        else:
            stand, deed = step(known, await self._seen(), self._terms, time.time())
        if differs(stand, noted):
            # Before the deed: whoever decides next has to know of it.
            self._due = (deed, stand.phase) if deed is not None else None
            held = await self._hold(self._lease_s, written(stand))
            if not held.mine or held.fence != self._fence or held.stand != written(stand):
                return
        self._due = None
        changed = stand.phase != noted.phase
        self._show(stand)
        if deed is not None:
            self._failure = ""
            self._doing = deeds.create_task(self._do(deed, deeds))
        if changed:
            self._say(stand)
        if changed and stand.phase == "failed" and stand.tries >= TRIES:
            await self._turn_away(stand.error)

    async def _hold(self, lease_s: float, stand: bytes = b"") -> Held:
        name, worker = self._engine.name, self._pool.worker
        return await hold(self._pool.lanes, name, worker, lease_s=lease_s, fence=self._fence, stand=stand)

    @property
    def _wants(self) -> bool:
        """A spare that runs is decided about by somebody who could stop it."""
        able = not self._terms.own_process or self._means.here or not self._engine.up
        return able and not self._pool.stopping

    async def _is_forgotten(self) -> bool:
        """Whether the store has just lost what it knew of it: the decision is left to whoever is at it. Raises
        ``StoreUnavailable``."""
        if (await self._hold(0.0)).fence:
            self._blank_at = None
            return False
        now_at = time.monotonic()
        self._blank_at = now_at if self._blank_at is None else self._blank_at
        return not self._means.here and not self._acting and now_at - self._blank_at < FORGOTTEN_S

    @property
    def _acting(self) -> bool:
        return self._doing is not None and not self._doing.done()

    async def _obey(self, stand: Stand) -> None:
        """Another worker decides."""
        self._show(stand)
        if self._means.own_process and self._means.here and not self._engine.up:
            log.warning("spare %s is another worker's to start; the one under way here is ended", self._engine.name)
            await self._means.leave()

    def _show(self, stand: Stand) -> None:
        """What this worker's other tasks go by, and what it tells."""
        news = stand.phase != self._stand.phase
        self._stand = stand
        self._engine.spare, self._engine.spare_error = stand.phase, stand.error
        # Not before it is noted: until then what its start writes is kept, and no prompt may be in that.
        self._engine.closed = stand.phase != "up"
        if news:
            self._engine.look.set()
            self._engine.wake.set()
            self._engine.on_news()

    def _say(self, stand: Stand) -> None:
        name = self._engine.name
        match stand.phase:
            case "failed":
                pause_s = stand.again_at - time.time()
                log.error("spare %s: %s It is left alone for %.0f s.", name, stand.error, max(0.0, pause_s))
                if self._means.log is not None:
                    log.error("spare %s: what its start wrote is in %s", name, self._means.log)
            case phase:
                log.info("spare %s is %s%s", name, phase, f": {stand.error}" if stand.error else "")

    async def _do(self, deed: Deed, deeds: asyncio.TaskGroup) -> None:
        try:
            await (self._means.start(deeds) if deed == "start" else self._means.stop())
        except MeansError as error:
            self._failure = str(error)
        self._engine.look.set()

    async def _seen(self) -> Seen:
        """Raises ``StoreUnavailable``."""
        engine = self._engine
        states = await read_states(self._pool.lanes.store, self._pool.lanes.keys)
        others = [state for state in states if state.name != engine.name]
        work = 0
        queues: list[Queue] = []
        for lanes in self._lanes:
            work += (await lanes.load(engine.name)).jobs
            chats = lanes is self._lanes[0]
            queues += [await look_at(lanes, names, others, chats=chats) for names in queues_of(engine)]
        return Seen(
            up=engine.up,
            work=work,
            queues=queues,
            others_first=self._is_early(others) or any(self._goes_first(state) for state in others),
            here=self._means.here,
            failure=self._failure or self._means.failure,
            acting=self._acting,
        )

    def _is_early(self, others: Sequence[BackendState]) -> bool:
        """Whether it is not known yet how this worker's other back ends stand."""
        up = {state.name for state in others if state.up}
        engines = (one for one in self._pool.engines if one is not self._engine)
        return any(not one.looked_at or (one.up and one.name not in up) for one in engines)

    def _goes_first(self, other: BackendState) -> bool:
        """Whether another spare with one of these models starts, or would be the one to."""
        if not other.queues() & set(self._engine.queues()) or other.up:
            return False
        return other.spare == "starting" or (other.spare == "stopped" and other.name < self._engine.name)

    async def _turn_away(self, error: str) -> None:
        """Those who wait for it alone have waited for long enough. Raises ``StoreUnavailable``."""
        states = await read_states(self._pool.lanes.store, self._pool.lanes.keys)
        others = [state for state in states if state.name != self._engine.name]
        failure = Failure(
            f"The back end that serves this model could not be started: {error}", 503, "backend_unavailable"
        )
        for lanes in self._lanes:
            for names in queues_of(self._engine):
                if not any(other.comes or other.up for other in others if other.queues() & set(names)):
                    await refuse_waiting(lanes, names, failure)

    async def _leave(self) -> None:
        await self._means.leave()
        if self._fence and self._pool.stopping:
            # A worker that was killed says nothing either.
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await self._hold(0.0, written(Stand()) if self._means.own_process else b"")
