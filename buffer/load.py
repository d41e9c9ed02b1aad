"""What workers tell of back ends and of themselves, for model lists, metrics and health. Each with a lifetime of its
own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from buffer.access import Store
from buffer.backend import Kind, ModelInfo
from buffer.keys import Keys
from buffer.names import queue_names

SparePhase = Literal["stopped", "starting", "up", "closing", "stopping", "failed"]
"""How a spare stands. ``closing``: it takes nothing new and is stopped if nobody wants it; ``failed``: it could not be
started, and is left alone for a while."""


class BackendState(Struct, omit_defaults=True, kw_only=True):
    """A back end as the worker that looked last saw it."""

    name: str
    kind: Kind
    up: bool
    breaker_open: bool = False
    trial: bool = False
    """Its breaker is half open: one job tries it."""
    models: list[ModelInfo] = []
    aliases: dict[str, str] = {}
    """Client name → upstream name, as its operator set them."""
    slots: int = 0
    """Requests that it runs side by side; 0: not told."""
    limit: int = 0
    """Jobs in flight that are allowed now, over all workers."""
    in_turn: bool = False
    """It was tried with two, and answers one after the other."""
    kv_tokens: int = 0
    simulated: bool = False
    loaded: list[str] = []
    """Ollama: models in memory."""
    probed_at: float = 0.0
    """Seconds of the worker's wall clock."""
    error: str = ""
    """Why it is not up: one sentence."""
    fallback_for: list[str] = []
    """Back ends that it stands in for."""
    learned: dict[str, dict[str, tuple[float, float]]] = {}
    """Upstream name of a model → name of a figure → what its use has shown it to be, and the samples behind that."""

    spare: Literal[""] | SparePhase = ""
    """Of one that is started when it is needed; empty: of any other."""
    comes_in_s: float = 0.0
    """Of a spare: how long it may take from its start until it answers."""

    @property
    def comes(self) -> bool:
        """It is down, and somebody starts it for those who wait."""
        return not self.up and self.spare not in ("", "failed")

    def queues(self) -> set[str]:
        """The queues of the models that it serves, or served when it was last up."""
        served = (*self.aliases, *(model.id for model in self.models))
        return {queue for name in served for queue in queue_names(name)}

    def takes(self, queue: str, after: str) -> bool:
        """Whether it could take a job of this queue that the back end of the name ``after`` had and gave back.

        Of one that stands in for others but not for that one, nobody knows from here.
        """
        fit = self.up and not self.breaker_open and queue in self.queues()
        return fit and (not self.fallback_for or after in self.fallback_for)

    @property
    def continues(self) -> bool:
        """Whether it can go on with an answer that another has begun."""
        return self.kind != "openai"


class WorkerPresence(Struct, omit_defaults=True, kw_only=True):
    id: str
    started_at: float
    """Seconds of its wall clock."""
    backends: list[str] = []
    draining: bool = False
    version: str = ""


Told = Literal["state", "worker", "gateway"]
_State = TypeVar("_State")
_encode = msgspec.json.encode


async def publish_state(store: Store, keys: Keys, state: BackendState, ttl_s: float) -> None:
    """Tells of a back end for ``ttl_s`` seconds. Raises ``StoreUnavailable``."""
    key = keys.state(state.name)
    await publish(store, keys.base, keys.states, key, state.name, value=_encode(state), ttl_s=ttl_s)


async def publish_worker(store: Store, keys: Keys, presence: WorkerPresence, ttl_s: float) -> None:
    """Says that a worker lives, for ``ttl_s`` seconds. Raises ``StoreUnavailable``."""
    key = keys.worker(presence.id)
    await publish(store, keys.base, keys.workers, key, presence.id, value=_encode(presence), ttl_s=ttl_s)


async def withdraw_worker(store: Store, keys: Keys, id: str) -> None:
    """The worker stops. Raises ``StoreUnavailable``."""
    await _all(store, [("DEL", keys.worker(id)), ("ZREM", keys.workers, id)])


async def read_states(store: Store, keys: Keys, *, eager: bool = False) -> list[BackendState]:
    """All back ends that a worker told of lately, by name. ``eager``: as ``Store.eager``. Raises
    ``StoreUnavailable``.
    """
    return await read(store, keys, "state", BackendState, eager)


async def read_workers(store: Store, keys: Keys, *, eager: bool = False) -> list[WorkerPresence]:
    """All workers that said lately that they live. ``eager``: as ``Store.eager``. Raises ``StoreUnavailable``."""
    return await read(store, keys, "worker", WorkerPresence, eager)


async def alive_workers(store: Store, keys: Keys) -> int:
    """How many workers live; eager. Raises ``StoreUnavailable``."""
    return len(await read_workers(store, keys, eager=True))


async def read_house(store: Store, keys: Keys) -> tuple[list[BackendState], int]:
    """``read_states`` and ``alive_workers`` at once; eager. Raises ``StoreUnavailable``."""
    states, workers = await _told(store, keys, "state", "worker", eager=True)
    return _decoded(states, BackendState), len(_decoded(workers, WorkerPresence))


async def publish(store: Store, base: str, index: str, key: str, name: str, *, value: bytes, ttl_s: float) -> None:
    """Tells something under ``name`` for ``ttl_s`` seconds; ``index`` lists the names. Raises ``StoreUnavailable``."""
    # The index is only a list of names: what counts is whether the value is still there, by the store's own clock.
    ttl_ms = max(1, round(ttl_s * 1000))
    until_us = int((time.time() + ttl_s) * 1_000_000)
    # Also where memory is full: without workers and back ends, nothing that waits there would come to an end.
    # All in one form: after a restart it is unknown, and what is sent once more comes behind the rest.
    commands: list[tuple[Any, ...]] = [
        ("SET", key, value, "PX", ttl_ms),
        ("ZADD", index, until_us, name),
        ("PEXPIRE", index, max(ttl_ms, 60_000)),
    ]
    await _all(store, [store.pressing(base, command) for command in commands])


async def read(store: Store, keys: Keys, kind: Told, form: type[_State], eager: bool = False) -> list[_State]:
    """All that was told so and has not run out, by name. Raises ``StoreUnavailable``."""
    (values,) = await _told(store, keys, kind, eager=eager)
    return _decoded(values, form)


async def _told(store: Store, keys: Keys, *kinds: Told, eager: bool) -> list[list[bytes]]:
    """In one exchange: requests wait for it."""
    (told,) = await _all(store, [store.call("told", keys=[keys.base], args=kinds)], eager)
    return cast(list[list[bytes]], told)


def _decoded(values: Sequence[bytes], form: type[_State]) -> list[_State]:
    return [one for value in values if (one := _decode(value, form)) is not None]


def _decode(value: bytes, form: type[_State]) -> _State | None:
    """None: it was told by another version, in words that this one does not know."""
    try:
        return msgspec.json.decode(value, type=form)
    except msgspec.DecodeError:
        return None


async def _all(store: Store, commands: Sequence[tuple[Any, ...]], eager: bool = False) -> list[Any]:
    results = await (store.eager(commands) if eager else store.exchange(commands))
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
