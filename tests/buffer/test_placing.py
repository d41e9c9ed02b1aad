"""What the pull script does about several back ends and several models, and the pure rule of it, told the same."""

from __future__ import annotations

import random

import pytest

from buffer.job import LANES
from buffer.lanes import Lanes
from buffer.load import BackendState, publish_state
from buffer.memory import Memory as Look
from buffer.records import Limits
from buffer.store import open_store
from policy.placing import Memory, Place, Queue, left_to_emptier, left_to_near, to_serve
from tests.buffer.jobs import job, pull, ready

MODELS = ("a", "b", "c")


async def fill(lanes: Lanes, backend: str, count: int, slots: int) -> None:
    """So many jobs run there, and it has so many places."""
    for number in range(count):
        await lanes.submit(job(f"{backend}{number}"))
        await pull(lanes, backend=backend, limits=Limits(slots=slots))
    await lanes.submit(job("marker", timeout_us=1))
    await pull(lanes, 0, backend=backend, limits=Limits(slots=slots))
    await lanes.cancel("marker")
    await lanes.store.redis.delete(lanes.keys.job("marker"))


@pytest.mark.parametrize("seed", range(16))
async def test_where_a_job_goes(seed: int) -> None:
    chance = random.Random(seed)
    store = await open_store(None)
    lanes = Lanes(store)
    clock = await ready(lanes)
    places = {}
    for name in ("b", "one", "two"):
        slots = chance.randint(2, 6)
        taken = chance.randint(0, slots - 1)
        await fill(lanes, name, taken, slots)
        places[name] = Place(slots, taken, able=chance.random() < 0.9)
    for name, place in places.items():
        state = BackendState(name=name, kind="vllm", up=place.able)
        await publish_state(store, lanes.keys, state, 60.0)
    near = chance.choice(["", "", "b", "one", "two"])
    clock.forward(10)
    await lanes.submit(job("it", near=near, lane="thinking"))
    age_s = chance.choice([0.0, 0.0, 0.005, 0.02, 0.2, 0.3])
    clock.forward(age_s)
    own = places.pop("b")
    pulled = await pull(lanes, limits=Limits(slots=own.slots))
    left_s = 0.0
    if near != "b":
        left_s = left_to_near(age_s, places.get(near)) or left_to_emptier(age_s, own, list(places.values()))
    assert [one.id for one in pulled.jobs] == ([] if left_s else ["it"])
    assert pulled.look_in_us == round(left_s * 1e6)
    await store.aclose()


@pytest.mark.parametrize("seed", range(24))
async def test_whose_jobs_go_to_an_engine_that_swaps_models(seed: int) -> None:
    chance = random.Random(seed)
    store = await open_store(None)
    lanes = Lanes(store)
    clock = await ready(lanes)
    began = clock.now
    running = chance.choice([[], ["a"], ["b"], ["a", "b"]])
    for number, model in enumerate(running):
        await lanes.submit(job(f"r{number}", model=model))
        assert (await pull(lanes, models=[model], limits=Limits(slots=9))).jobs
    clock.forward(20)
    swapped_at = 0 if set(running) == {"a", "b"} else clock.now - round(chance.uniform(0, 20) * 1e6)
    model = chance.choice("ab") if len(set(running)) != 1 else running[0]
    told = {"model": model, "at": swapped_at, "since": began}
    await store.redis.hset(lanes.keys.memory("b"), mapping=told)
    queues = []
    for name in chance.sample(MODELS, chance.randint(1, 3)):
        waiting = []
        for number in range(chance.randint(1, 3)):
            clock.forward(chance.uniform(0.1, 9))
            lane = chance.choice(LANES)
            offset = chance.randint(0, 20_000_000)
            await lanes.submit(job(f"{name}{number}", model=name, lane=lane, offset_us=offset, timeout_us=10**9))
            waiting.append((lane, clock.now + offset, clock.now))
        people = [one for one in waiting if one[0] != "background"]
        _, score, arr = min(people or waiting, key=lambda one: one[1])
        queues.append(Queue(name, score / 1e6, arr / 1e6, min((one[2] for one in people), default=0) / 1e6 or None))
    clock.forward(chance.uniform(0, 9))
    memory = Memory({model}, swapped_at / 1e6, pending=swapped_at == 0, busy=bool(running))
    pulled = await pull(
        lanes, 9, models=[queue.model for queue in queues], limits=Limits(slots=99), memory=Look([], 10**9)
    )
    served = to_serve(queues, memory, clock.now / 1e6)
    some = {one.model for one in pulled.jobs}
    if any(queue.oldest_at is not None for queue in queues):
        # Background work stays behind, so where only that waits for them, nothing goes.
        served_people = {queue.model for queue in queues if queue.oldest_at and queue.model in served.models}
        assert some == served_people
    else:
        assert some == set(served.models)
    look_in_us = 0 if served.look_at is None else round((served.look_at - clock.now / 1e6) * 1e6)
    assert abs(pulled.look_in_us - look_in_us) <= 1
    await store.aclose()
