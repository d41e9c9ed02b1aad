"""Back ends side by side, and one that swaps models, as tests of pull begin with them."""

from __future__ import annotations

from typing import Any

from buffer.job import End
from buffer.lanes import Lanes
from buffer.load import BackendState, publish_state
from buffer.memory import Memory
from buffer.records import Limits
from tests.buffer.jobs import Clock, ids, job, pull, ready, record

FOUR = Limits(slots=4)
_DONE = End("cancelled")
TWO = Limits(slots=2)


async def up(lanes: Lanes, name: str, **more: Any) -> None:
    """Some worker tells that it is up."""
    state = BackendState(name=name, kind="vllm", **{"up": True, **more})
    await publish_state(lanes.store, lanes.keys, state, 60.0)


async def has_loaded(lanes: Lanes, name: str, model: str) -> None:
    await lanes.store.redis.hset(lanes.keys.memory(name), "model", model)
    await lanes.store.redis.expire(lanes.keys.memory(name), 60)


async def two(lanes: Lanes, *, limits: Limits = FOUR) -> Clock:
    """Two back ends that have both pulled for the model, each with as many places."""
    clock = await ready(lanes)
    await lanes.submit(job("first"))
    for name in ("other", "b"):
        await up(lanes, name)
        await pull(lanes, 0, backend=name, limits=limits)
    assert await ids(lanes, limits=limits) == ["first"]
    await lanes.settle("first", int((await record(lanes, "first"))["fence"]), 1, _DONE)
    clock.forward(1)
    return clock


def look(*queues: str, age_s: float = 0.0) -> Memory:
    return Memory(list(queues), round(age_s * 1e6))


LONG_AGO = look(age_s=1000)


async def ask(lanes: Lanes, want: int = 1, *, memory: Memory | None = None, **more: Any) -> list[str]:
    """Jobs of a or b for an engine at which nobody has looked since, unless told."""
    more = {"models": ["a", "b"], "limits": TWO, **more}
    return await ids(lanes, want, memory=memory or LONG_AGO, **more)


async def look_in_s(lanes: Lanes) -> float:
    """When a pull that wants nothing says to look again."""
    return (await pull(lanes, 0, models=["a", "b"], limits=TWO, memory=LONG_AGO)).look_in_us / 1e6


async def put(lanes: Lanes, clock: Clock, *names: str, **more: Any) -> None:
    """Jobs whose names begin with their models'."""
    for name in names:
        await lanes.submit(job(name, model=name[0], **more))
        clock.forward(0.001)


async def end(lanes: Lanes, *names: str) -> None:
    for name in names:
        await lanes.settle(name, int((await record(lanes, name))["fence"]), 1, End("cancelled"))


async def has_a(lanes: Lanes, *running: str) -> Clock:
    """The engine was sent jobs of a, 100 s ago."""
    clock = await ready(lanes)
    await put(lanes, clock, *(running or ["a0"]))
    assert len(await ask(lanes, 2)) == len(running or ["a0"])
    clock.forward(100)
    return clock
