"""How everything stands at one moment: lanes, back ends, workers, dead letters. For those who look on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from buffer.access import Command
from buffer.job import LANES
from buffer.lanes import Lanes
from buffer.load import BackendState, WorkerPresence, read_states, read_workers

LETTERS = 20
"""So many dead letters of a pool are told of, the newest."""
UNDER_WAY = 40
"""So many jobs under way are, the oldest."""
REF_CHARS = 12
"""Jobs are told of by so much of their ids: with a whole one and its owner's address, its answer could be had."""


class LaneView(Struct, kw_only=True):
    name: str
    waiting: int = 0
    oldest_s: float = 0.0
    """How long the longest has waited; 0 for an empty lane."""
    running: int = 0


class EngineView(Struct, kw_only=True):
    """A back end, as the worker saw it that looked last, and what it carries over all workers."""

    name: str
    kind: str
    pool: str
    up: bool
    breaker: str
    """closed, open or trial."""
    error: str
    jobs: int
    limit: int
    """Jobs that it may have now; 0: not told."""
    kv: int
    kv_tokens: int
    """Tokens of memory, claimed and there; 0: not told."""
    reading: int
    """Prompt tokens that were sent to it and not read yet, of lanes but the fast ones."""
    models: list[str]
    loaded: list[str]
    fallback_for: list[str]
    simulated: bool


class WorkerView(Struct, kw_only=True):
    id: str
    age_s: float
    backends: list[str]
    draining: bool


class JobView(Struct, kw_only=True):
    """A job under way."""

    ref: str
    lane: str
    engine: str
    age_s: float
    """Since its request came."""


class LetterView(Struct, kw_only=True):
    ref: str
    at: float
    """Seconds since 1970."""
    lane: str
    model: str
    reason: str


class Overview(Struct, kw_only=True):
    at: float
    """When it was read, in seconds since 1970."""
    lanes: list[LaneView]
    """In order of preference; embeddings, which have none, come last."""
    engines: list[EngineView] = []
    workers: list[WorkerView] = []
    dead: int = 0
    letters: list[LetterView] = []
    """The newest first."""
    under_way: list[JobView] = []
    """The oldest first."""
    refs: dict[str, str] = {}
    """What jobs are told of by → their ids."""

    @property
    def running(self) -> int:
        return sum(lane.running for lane in self.lanes)

    @property
    def waiting(self) -> int:
        return sum(lane.waiting for lane in self.lanes)


async def read_overview(pools: Iterable[Lanes], embedding_pools: Iterable[Lanes] = ()) -> Overview:
    """Of all ``pools`` together. Raises ``StoreUnavailable``."""
    now = time.time()
    found = Overview(at=now, lanes=[LaneView(name=lane) for lane in LANES])
    by_lane = {lane.name: lane for lane in found.lanes}
    workers: dict[str, WorkerView] = {}
    for lanes in pools:
        for name, depth in (await lanes.depths()).items():
            _wait(by_lane[name], depth.waiting, depth.oldest_wait_us)
        for presence in await read_workers(lanes.store, lanes.keys):
            # One that serves several pools tells each of them.
            _meet(workers, presence, now)
        await _add_engines(found, by_lane, lanes, await read_states(lanes.store, lanes.keys))
        await _add_letters(found, lanes)
    embeddings = LaneView(name="embeddings")
    for lanes in embedding_pools:
        for depth in (await lanes.depths()).values():
            _wait(embeddings, depth.waiting, depth.oldest_wait_us)
        await _add_letters(found, lanes)
    found.lanes.append(embeddings)
    found.engines.sort(key=lambda engine: engine.name)
    found.workers = sorted(workers.values(), key=lambda worker: worker.id)
    found.letters.sort(key=lambda letter: -letter.at)
    del found.letters[LETTERS:]
    found.under_way.sort(key=lambda job: -job.age_s)
    del found.under_way[UNDER_WAY:]
    return found


def _wait(lane: LaneView, waiting: int, oldest_us: int) -> None:
    lane.waiting += waiting
    lane.oldest_s = max(lane.oldest_s, oldest_us / 1e6)


def _meet(workers: dict[str, WorkerView], presence: WorkerPresence, now: float) -> None:
    known = workers.get(presence.id)
    if known is None:
        age_s = max(0.0, now - presence.started_at)
        known = WorkerView(id=presence.id, age_s=age_s, backends=[], draining=presence.draining)
        workers[presence.id] = known
    known.backends += presence.backends


async def _add_engines(
    found: Overview, by_lane: Mapping[str, LaneView], lanes: Lanes, states: Iterable[BackendState]
) -> None:
    states = list(states)
    loads = await _ask(lanes, [("HGETALL", lanes.keys.load(state.name)) for state in states])
    for state, load in zip(states, loads, strict=True):
        engine = _engine(state, lanes.keys.pool)
        for id, share in load.items():
            kv, prefill, _, lane, arrived_us, *_ = share.decode().split(",")
            engine.jobs += 1
            engine.kv += int(kv)
            engine.reading += int(prefill)
            if lane in by_lane:
                by_lane[lane].running += 1
            ref = id.decode()[:REF_CHARS]
            found.refs[ref] = id.decode()
            age_s = max(0.0, found.at - int(arrived_us) / 1e6)
            found.under_way.append(JobView(ref=ref, lane=lane, engine=state.name, age_s=age_s))
        found.engines.append(engine)


def _engine(state: BackendState, pool: str) -> EngineView:
    return EngineView(
        name=state.name,
        kind=state.kind,
        pool=pool,
        up=state.up,
        breaker="open" if state.breaker_open else "trial" if state.trial else "closed",
        error=state.error,
        jobs=0,
        limit=state.limit,
        kv=0,
        kv_tokens=state.kv_tokens,
        reading=0,
        models=sorted({*state.aliases, *(model.id for model in state.models)}),
        loaded=sorted(state.loaded),
        fallback_for=state.fallback_for,
        simulated=state.simulated,
    )


async def _add_letters(found: Overview, lanes: Lanes) -> None:
    dead = lanes.keys.dead
    count, newest = await _ask(lanes, [("XLEN", dead), ("XREVRANGE", dead, "+", "-", "COUNT", LETTERS)])
    found.dead += count
    for _, fields in newest:
        told = {name.decode(): value.decode() for name, value in fields.items()}
        found.letters.append(
            LetterView(
                ref=told.get("id", "")[:REF_CHARS],
                at=int(told.get("at", "0")) / 1e6,
                lane=told.get("lane", ""),
                model=told.get("model", ""),
                reason=told.get("reason", ""),
            )
        )


async def _ask(lanes: Lanes, commands: list[Command]) -> list[Any]:
    results = await lanes.store.exchange(commands) if commands else []
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
