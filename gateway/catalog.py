"""What the workers tell of back ends and models: as fresh as a second, and patient with a system that only starts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

from buffer.job import Failure
from buffer.load import read_house
from buffer.model_records import Families
from buffer.store import Store, StoreUnavailable
from gateway.call import Headers
from gateway.models import Model, Models, merge
from gateway.pools import Pool
from gateway.refusal import Refusal

_FRESH_S = 1.0
_AHEAD_S = 0.8
"""Less than ``_FRESH_S`` by more than a read takes."""
_ATTENTIVE_S = 10.0
"""How long after a request the list is kept fresh, so that the next one need not wait for it."""
_READ_S = 2.0
"""A list is worth more than its last second: a store slower than this gets no say in it."""
_LOOK_AGAIN_S = 0.1
_EMPTIED_S = 6.0
"""Workers tell of themselves and of their back ends every 5 s at least. Where all at once nobody tells of the one or
the other, the store was emptied, or away until all it knew ran out, or workers are being started anew: for so long
there is hope."""
STORE_AWAY = Failure("The queue cannot be reached at the moment.", 503, "store_unavailable", retry_after_s=1)


class Catalog:
    """The models of all pools. ``run`` has to run beside.

    ``expected``: names of the back ends that are configured here, where any are.
    """

    def __init__(
        self,
        store: Store,
        pools: Mapping[str, Pool],
        expected: Collection[str] = (),
        *,
        cold_s: float,
        families: Families | None = None,
    ) -> None:
        self._store = store
        self._pools = pools
        self._expected = frozenset(expected)
        self._families = families
        self._cold_until = time.monotonic() + cold_s
        self._blank_s = _EMPTIED_S if cold_s > 0 else 0.0
        self._blank_until = 0.0
        self._reading = asyncio.Lock()
        self._asked = asyncio.Event()
        self._attends = False
        """``run`` keeps the list fresh now, or is about to."""
        self._asked_at = float("-inf")
        self._read_at = float("-inf")
        """Also where it failed."""
        self._models: Models | None = None
        self._last_known: Models | None = None
        """The newest in which there were back ends."""

    async def read(self, fresh_s: float = _FRESH_S) -> Models:
        """All models, read anew if what is known is older than ``fresh_s``.

        While the store is away, what was known before; raises ``StoreUnavailable`` where nothing was.
        """
        if time.monotonic() - self._read_at < fresh_s:
            return self._known()
        if self._models is not None and self._is_away():
            # Somebody is looking for it: whoever comes meanwhile is not to wait for that.
            return self._models
        async with self._reading:
            if time.monotonic() - self._read_at < fresh_s:
                # Whoever waited here for a store that does not answer has waited long enough.
                return self._known()
            try:
                async with asyncio.timeout(_READ_S):
                    found = await self._ask()
            except (StoreUnavailable, TimeoutError):
                self._read_at = time.monotonic()
                return self._known()
            self._read_at = time.monotonic()
            if found.states:
                self._last_known = found
            if self._models is None:
                if not _is_whole(found):
                    # Nobody has looked before: it may have been emptied a moment ago.
                    self._blank_until = self._read_at + self._blank_s
            elif self._is_emptied(found, self._models):
                self._cold_until = self._read_at + _EMPTIED_S
            self._models = found
            return self._models

    def _is_away(self) -> bool:
        return any(self._store.away(pool.lanes.keys.base) is not None for pool in self._pools.values())

    def _known(self) -> Models:
        if self._models is None:
            raise StoreUnavailable("back ends are not known yet")
        return self._models

    async def run(self) -> None:
        """Keeps the list fresh while requests come, off their way; while none do, it reads nothing."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            while time.monotonic() - self._asked_at < _ATTENTIVE_S:
                await asyncio.sleep(_AHEAD_S)
                with suppress(StoreUnavailable):
                    await self.read(_AHEAD_S / 2)
            self._attends = False

    async def list(self) -> Models:
        """For the lists of models: as ``read``, but while the system starts it waits for the first back end.

        Where the store was emptied, what was known before.
        """
        models = await self.read()
        while self._is_cold(models):
            if self._last_known is not None and not models.states:
                return self._last_known
            await asyncio.sleep(_LOOK_AGAIN_S)
            models = await self.read(_LOOK_AGAIN_S)
        return models

    def ready(self, name: str) -> Model | None:
        """The model that ``name`` means, if that is known and its jobs can start now; None: ``resolve`` tells more."""
        now_at = time.monotonic()
        models = self._models
        if models is None or now_at - self._read_at >= _FRESH_S or not models.workers:
            return None
        self._asked_at = now_at
        if not self._attends:
            self._attend()
        model = models.find(name)
        return model if model is not None and model.up else None

    def _attend(self) -> None:
        self._attends = True
        self._asked.set()

    async def resolve(self, name: str) -> Model | None:
        """The model that ``name`` means, if its jobs can start now; None if there is no such model.

        Raises ``Refusal`` with 503 where no worker is alive or all its back ends are down.
        """
        self._asked_at = time.monotonic()
        self._attend()
        try:
            models = await self.read()
            model = models.find(name)
            while (model is None or not models.workers) and (self._is_cold(models) or self._is_blank(models)):
                await asyncio.sleep(_LOOK_AGAIN_S)
                models = await self.read(_LOOK_AGAIN_S)
                model = models.find(name)
            if model is None:
                models = await self.read(_LOOK_AGAIN_S)
                model = models.find(name)
        except StoreUnavailable:
            raise Refusal(STORE_AWAY, "refused") from None
        if not models.workers:
            raise _unavailable("No worker is running, so no request can be answered at the moment.")
        if model is None:
            if not any(state.up for state in models.states):
                raise _unavailable("No back end can be reached at the moment.")
            return None
        if not model.up:
            if model.failure:
                raise _unavailable(f"The back end that serves '{model.name}' could not be started: {model.failure}")
            raise _unavailable(f"No back end that serves '{model.name}' can be reached at the moment.")
        return model

    def about(self, backend: str, name: str) -> Headers:
        """What an answer's headers tell of the back end that gives it. ``name``: of the model."""
        told = [(b"x-doublebuffer-backend", backend.encode("ascii", "replace"))]
        model = self._models and self._models.find(name)
        if model and backend in model.stand_ins:
            told.append((b"x-doublebuffer-fallback", model.stand_ins[backend].encode("ascii", "replace")))
        return told

    def _is_emptied(self, found: Models, before: Models) -> bool:
        """Nobody tells of what was told of a moment ago. Of some back ends of ours, somebody may again already."""
        if _is_whole(before) and not _is_whole(found):
            return True
        gone = {state.name for state in before.states} - {state.name for state in found.states}
        return bool(gone & self._expected)

    def _is_blank(self, models: Models) -> bool:
        return time.monotonic() < self._blank_until and not _is_whole(models)

    def _is_cold(self, models: Models) -> bool:
        if time.monotonic() > self._cold_until:
            return False
        seen = {state.name for state in models.states}
        return not (models.workers and seen and self._expected <= seen)

    async def _ask(self) -> Models:
        states = []
        workers = 0
        for pool in self._pools.values():
            keys = pool.lanes.keys
            found, alive = await read_house(self._store, keys)
            states += [(pool.name, state) for state in found]
            workers += alive
        return merge(states, workers, self._families)


def _is_whole(models: Models) -> bool:
    return bool(models.workers and models.states)


def _unavailable(message: str) -> Refusal:
    return Refusal(Failure(message, 503, "backend_unavailable", retry_after_s=5), "backend_error")
