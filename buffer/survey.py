"""Reads from the store how everything stands."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from buffer.access import Command
from buffer.job import LANES
from buffer.lanes import Lanes
from buffer.load import BackendState, WorkerPresence, read_states, read_workers
from buffer.names import queue_names
from buffer.overview import (
    REF_CHARS,
    EngineState,
    EngineView,
    JobView,
    LaneView,
    LetterView,
    Overview,
    QueueView,
    WorkerView,
)

RECENT_MODELS = 50
"""Among so many models that were asked for last, those are looked for that jobs wait for."""
QUEUES = 5
LETTERS = 20
"""So many dead letters of a pool are told of, the newest."""
UNDER_WAY = 40
"""So many jobs under way are, the oldest."""
MODELS = 60
"""So many models of a back end are named, those in memory first; of the others there is the number."""
_PEOPLE = tuple(lane for lane in LANES if lane != "background")


async def read_overview(pools: Iterable[Lanes], embedding_pools: Iterable[Lanes] = ()) -> Overview:
    """Of all ``pools`` together. Raises ``StoreUnavailable``."""
    now = time.time()
    found = Overview(at=now, lanes=[LaneView(name=lane) for lane in LANES])
    by_lane = {lane.name: lane for lane in found.lanes}
    workers: dict[str, WorkerView] = {}
    for lanes in pools:
        for name, depth in (await lanes.depths()).items():
            _wait(by_lane[name], depth.waiting, depth.oldest_wait_us)
        states = await read_states(lanes.store, lanes.keys)
        if any(lane.waiting for lane in found.lanes if lane.name != "background"):
            found.queues += await _queues(lanes, states)
        for presence in await read_workers(lanes.store, lanes.keys):
            # One that serves several pools tells each of them.
            _meet(workers, presence, now)
        await _add_engines(found, by_lane, lanes, states)
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


async def _queues(lanes: Lanes, states: Sequence[BackendState]) -> list[QueueView]:
    (models,) = await _ask(lanes, [("ZREVRANGE", lanes.keys.models, 0, RECENT_MODELS - 1)])
    queues = [model.decode() for model in models]
    counts = await _ask(lanes, [("ZCARD", lanes.keys.wait(queue, lane)) for queue in queues for lane in _PEOPLE])
    views = []
    for i, queue in enumerate(queues):
        if waiting := sum(counts[i * len(_PEOPLE) : (i + 1) * len(_PEOPLE)]):
            served = [state for state in states if queue in state.queues()]
            names = sorted(name for state in served for name in _names(state) if queue in queue_names(name))
            engines = [state.name for state in served]
            views.append(QueueView(model=names[0] if names else queue, waiting=waiting, engines=engines))
    return sorted(views, key=lambda view: -view.waiting)[:QUEUES]


def _names(state: BackendState) -> Iterable[str]:
    """Of the models that it serves, as clients ask for them."""
    return {*state.aliases, *(model.id for model in state.models)}


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
    found: Overview, by_lane: Mapping[str, LaneView], lanes: Lanes, states: Sequence[BackendState]
) -> None:
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
    models = set(_names(state))
    return EngineView(
        name=state.name,
        kind=state.kind,
        pool=pool,
        state=_state(state),
        error=state.error,
        jobs=0,
        limit=state.limit,
        kv=0,
        kv_tokens=state.kv_tokens,
        reading=0,
        models=sorted(models, key=lambda name: (name not in state.loaded, name))[:MODELS],
        model_count=len(models),
        loaded=sorted(state.loaded),
        fallback_for=state.fallback_for,
        simulated=state.simulated,
    )


def _state(state: BackendState) -> EngineState:
    if state.up:
        return "open" if state.breaker_open else "trial" if state.trial else "up"
    if state.comes:
        return "starting" if state.spare in ("starting", "up") else "spare"
    return "down"


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
