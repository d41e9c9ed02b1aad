"""Which Ollama back end keeps a model, and when everybody knows that one has come or gone.

A pull, a push, a copy and what is created go to one back end: the first that is up and has the model already, else the
first that is up. Models are large, and only their operator knows which machine has room for one. A model is deleted
wherever it is, or it would still be listed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.json import encode

from backends.management import ModelKeeper
from buffer.cache import Shelf
from buffer.job import Chat, Failure
from buffer.load import BackendState, read_workers
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from gateway.catalog import STORE_AWAY, Catalog
from gateway.dialects.management import same_model
from gateway.models import Model
from gateway.pools import Pool
from gateway.question import purge_name
from gateway.refusal import Refusal

_log = logging.getLogger("doublebuffer.gateway")
_KNOWN_S = 3.0
"""How long an answer waits until the model lists tell what it tells."""
_LOOK_AGAIN_S = 0.05
_LOADED_S = 300.0
"""How long a model may take to get into memory,"""
_ANSWER_S = 1.5
"""and how long the answer to who asked for it waits for that."""
_MOST_LOADS = 64
_LOADING = Failure("Too many models are being loaded already.", 503, "busy", retry_after_s=5)


@dataclass(slots=True)
class _Load:
    """A request without a prompt, by which an Ollama loads or frees a model."""

    keeper: ModelKeeper
    body: bytes
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        try:
            async with asyncio.timeout(_LOADED_S), self.keeper.send("POST", "/api/generate", self.body) as told:
                await told.whole()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong at a back end must not end the gateway
            _log.warning("back end %s did not load or free a model: %s", self.keeper.spec.name, type(error).__name__)
        finally:
            self.done.set()


class Management:
    """The Ollama back ends that this gateway is told of, as keepers of models."""

    def __init__(
        self, settings: Settings, catalog: Catalog, pools: Mapping[str, Pool], shelf: Shelf | None = None
    ) -> None:
        """``shelf``: where answers are kept, if they are."""
        self._catalog = catalog
        self._shelf = shelf
        self._pools = pools
        self._keepers = {
            spec.name: ModelKeeper(spec, connect_timeout_s=settings.connect_timeout_seconds)
            for spec in settings.backends
            if spec.kind == "ollama"
        }
        self._loads: dict[tuple[str, bytes], _Load] = {}
        """Those under way, by back end and body."""
        self._new: asyncio.Queue[_Load] = asyncio.Queue(_MOST_LOADS)

    async def aclose(self) -> None:
        for keeper in self._keepers.values():
            await keeper.aclose()

    async def serves(self, name: str) -> bool:
        """Whether there is nothing to do for a model to be there: no Ollama is, and another back end serves it. Raises
        ``Refusal``."""
        try:
            return not self._keepers and (await self._catalog.list()).find(name) is not None
        except StoreUnavailable:
            raise Refusal(STORE_AWAY, "refused") from None

    async def one(self, asked_for: str, model: str = "", *, verb: str) -> ModelKeeper:
        """The back end that a request goes to. ``asked_for``: its name, where the client chose it; ``model``: what it
        should have; ``verb``: what is to be done with models. Raises ``Refusal``."""
        return (await self._candidates(asked_for, model, verb))[0]

    async def holders(self, asked_for: str, model: str, *, verb: str) -> list[ModelKeeper]:
        """All back ends that have a model. Where none is known to, one that will say so. Raises ``Refusal``."""
        await self._refuse_alias(model)
        states = await self._states()
        found = await self._candidates(asked_for, model, verb)
        holders = [keeper for keeper in found if _has(states.get(keeper.spec.name), model)]
        return holders or found[:1]

    async def _candidates(self, asked_for: str, model: str, verb: str) -> list[ModelKeeper]:
        """Those that are up, those first that have the model."""
        states = await self._states()
        if not self._keepers:
            raise Refusal(_no_ollama(verb, any(state.kind == "ollama" for state in states.values())))
        if asked_for:
            if asked_for not in self._keepers:
                raise Refusal(Failure(f"There is no Ollama back end called '{asked_for}'.", 400, ""))
            return [self._keepers[asked_for]]
        up = [
            keeper
            for name, keeper in self._keepers.items()
            if not states or ((state := states.get(name)) is not None and state.up)
        ]
        if not up:
            message = "No Ollama back end can be reached at the moment."
            raise Refusal(Failure(message, 503, "backend_unavailable", retry_after_s=5), "backend_error")
        return sorted(up, key=lambda keeper: not (model and _has(states.get(keeper.spec.name), model)))

    async def _refuse_alias(self, model: str) -> None:
        for state in (await self._states()).values():
            for alias, upstream in state.aliases.items():
                if same_model(alias, model) and not _has(state, model):
                    message = f"'{model}' is a name that Doublebuffer's settings give to '{upstream}'."
                    raise Refusal(Failure(message, 400, "", "model"))

    async def _states(self) -> Mapping[str, BackendState]:
        """What workers tell; nothing while the store is away, which no model needs in order to be moved."""
        try:
            return {state.name: state for state in (await self._catalog.list()).states}
        except StoreUnavailable:
            return {}

    async def keep(self, model: Model, chat: Chat) -> None:
        """Has every Ollama that has a model take it into memory, or let go of it if it is to be kept no time, as a chat
        without words asks. Elsewhere models are always there. Waits for ``_ANSWER_S`` at most; loading goes on.

        Raises ``Refusal`` where too much is being loaded already.
        """
        places = {(offer.state.name, offer.info.id) for offer in model.offers if offer.state.up}
        loads = [self._load(self._keepers[name], id, chat) for name, id in places if name in self._keepers]
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                for load in loads:
                    await load.done.wait()

    def _load(self, keeper: ModelKeeper, model: str, chat: Chat) -> _Load:
        wish: dict[str, object] = {"model": model, "stream": False}
        if chat.keep_alive is not None:
            wish["keep_alive"] = chat.keep_alive
        # With another context than that of its chats, Ollama would load the model anew for the next of them.
        context = keeper.spec.num_ctx or chat.options.get("num_ctx")
        if context is not None:
            wish["options"] = {"num_ctx": context}
        body = encode(wish)
        key = (keeper.spec.name, body)
        if key not in self._loads:
            if len(self._loads) >= _MOST_LOADS:
                raise Refusal(_LOADING, "refused")
            load = self._loads[key] = _Load(keeper, body)
            self._new.put_nowait(load)
        return self._loads[key]

    async def run(self) -> None:
        """Loads what ``keep`` asks for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                load = await self._new.get()
                group.create_task(self._finish(load))

    async def _finish(self, load: _Load) -> None:
        try:
            await load.run()
        finally:
            del self._loads[load.keeper.spec.name, load.body]

    async def known(self, keeper: ModelKeeper, model: str, *, there: bool) -> None:
        """Waits until the lists tell that a back end has a model, or has it no longer; not for ever. What the model of
        that name said before is forgotten.
        """
        name, pool = keeper.spec.name, self._pools[keeper.spec.pool]

        def told(states: Sequence[BackendState]) -> bool:
            return any(state.name == name and _has(state, model) is there for state in states)

        try:
            async with asyncio.timeout(_KNOWN_S):
                workers = [worker.id for worker in await read_workers(pool.lanes.store, pool.lanes.keys)]
                await pool.lanes.look(workers, name)
                await self._until(told if workers else lambda _: True)
        except (StoreUnavailable, TimeoutError):
            _log.warning("back end %s: its models have changed, and no worker has told so yet", name)
        if self._shelf is not None:
            with suppress(StoreUnavailable):  # what is kept has a lifetime, too
                await self._shelf.purge(purge_name(model))

    async def _until(self, told: Callable[[Sequence[BackendState]], bool]) -> None:
        while True:
            if told((await self._catalog.read(_LOOK_AGAIN_S)).states):
                return
            await asyncio.sleep(_LOOK_AGAIN_S)


def _has(state: BackendState | None, model: str) -> bool:
    return state is not None and any(same_model(info.id, model) for info in state.models)


def _no_ollama(verb: str, elsewhere: bool) -> Failure:
    if elsewhere:
        return Failure(
            f"Only the workers are told where the Ollama back ends are, so this gateway cannot {verb} models there.",
            400,
            "",
        )
    return Failure(f"None of the back ends is an Ollama, and only an Ollama can {verb} models.", 400, "")
