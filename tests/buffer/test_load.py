"""What workers tell of back ends and of themselves."""

from __future__ import annotations

from buffer.backend import ModelInfo
from buffer.lanes import Lanes
from buffer.load import (
    BackendState,
    WorkerPresence,
    alive_workers,
    publish_state,
    publish_worker,
    read_house,
    read_states,
    read_workers,
    withdraw_worker,
)
from tests.buffer.running import until


async def test_states_come_back_as_they_were(lanes: Lanes) -> None:
    store, keys = lanes.store, lanes.keys
    assert await read_states(store, keys) == []
    states = [
        BackendState(name="b", kind="vllm", up=True, models=[ModelInfo("m", context_length=4096)], slots=4, limit=3),
        BackendState(name="a", kind="ollama", up=False, error="It is down."),
    ]
    for state in states:
        await publish_state(store, keys, state, 10)
    assert await read_states(store, keys) == states[::-1]


async def test_what_another_version_tells_is_passed_over(lanes: Lanes) -> None:
    store, keys = lanes.store, lanes.keys
    for name in ("newer", "own"):
        await publish_state(store, keys, BackendState(name=name, kind="vllm", up=True), 10)
    await store.redis.set(keys.state("newer"), b'{"name": "newer", "kind": "unheard-of", "up": true}', ex=10)
    assert [state.name for state in await read_states(store, keys)] == ["own"]


async def test_a_worker_lives_for_as_long_as_it_says(lanes: Lanes) -> None:
    store, keys = lanes.store, lanes.keys
    one = WorkerPresence(id="one", started_at=1.5, backends=["b"])
    await publish_worker(store, keys, one, 10)
    await publish_worker(store, keys, WorkerPresence(id="two", started_at=2.5), 0.05)

    async def only_one() -> bool:
        return await read_workers(store, keys) == [one]

    assert await until(only_one)
    assert await store.redis.zcard(keys.workers) == 1
    assert await alive_workers(store, keys) == 1
    await withdraw_worker(store, keys, "one")
    assert await alive_workers(store, keys) == 0


async def test_what_has_run_out_leaves_the_index(lanes: Lanes) -> None:
    store, keys = lanes.store, lanes.keys
    state = BackendState(name="b", kind="vllm", up=True)
    await publish_state(store, keys, state, 10)
    await publish_worker(store, keys, WorkerPresence(id="one", started_at=1.5), 10)
    assert await read_house(store, keys) == ([state], 1)
    await store.redis.delete(keys.state("b"))
    assert await read_house(store, keys) == ([], 1)
    assert await store.redis.exists(keys.states) == 0
