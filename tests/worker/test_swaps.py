"""Two models on one engine that keeps one in memory, through the real path. Time runs five times as fast: what is 15 s
is 3 s here, in the store's script as in the simulated Ollama."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from buffer.backend import BackendSpec
from buffer.job import Chat, Message, encode_chat
from buffer.store import open_store
from simulate.ollama import LOAD_S, OllamaEngine
from tests.buffer.guards.changing import script_text, text_of
from tests.rig.redis_server import RedisServer
from tests.simulate.serving import served
from tests.worker.rig import Gate, gate, now, working

SCALE = 0.2
SWAP_S = 15.0
MODELS = ("simulated-a", "simulated-b")
SLOTS = 4
WORDS, COUNT = 128, 40
RUN_S = 128 * 0.0199
"""Such an answer beside three others, by the cost model."""
PER_S = SLOTS / RUN_S * (SWAP_S - LOAD_S) / SWAP_S
"""Requests a second of an engine that swaps every 15 s and works in between."""


@dataclass
class Loads:
    """When the engine loaded which model in place of which, by the clock of ``now``."""

    seen: list[tuple[float, str]] = field(default_factory=list)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    noted, load = Loads(), OllamaEngine._load

    def loading(engine: OllamaEngine) -> float:
        before = engine.loaded
        spent_s = load(engine)
        if spent_s and before is not None:
            noted.seen.append((now(), before[0]))
        return spent_s

    monkeypatch.setattr(OllamaEngine, "_load", loading)
    return noted


@pytest.fixture
def hurried() -> Iterator[None]:
    text = text_of("_memory")
    fast = text.replace("local SWAP = 15000000", f"local SWAP = {round(SWAP_S * SCALE * 1e6)}")
    assert fast != text
    with script_text("_memory", fast):
        yield


@dataclass
class Asked:
    model: str
    came_at: float
    began_at: float = 0.0

    @property
    def wait_s(self) -> float:
        """Modelled seconds to the first word."""
        return (self.began_at - self.came_at) / SCALE


@dataclass
class Standstill:
    """How long this process, in which all but the store runs, did not get the machine, in seconds."""

    for_s: float = 0.0

    async def watch(self) -> None:
        while True:
            before = now()
            await asyncio.sleep(0.02)
            if (late_s := now() - before - 0.02) > 0.05:
                self.for_s += late_s


async def ask(door: Gate, model: str) -> Asked:
    one = Asked(model, now())
    chat = Chat(model=model, messages=[Message("user", "x")], think="off", stream=True, max_tokens=WORDS)
    asking = await door.ask(lane="fast", model=model, body=encode_chat(chat))
    await asking.begin(60)
    one.began_at = now()
    assert (await asking.end(60)).kind == "done"
    return one


@pytest.mark.slow
async def test_two_models_in_turns(loads: Loads, hurried: None, real_redis: RedisServer) -> None:
    """At 0.7 of what the engine can do that way, with two workers."""
    chance = random.Random(5)
    async with AsyncExitStack() as stack:
        engine = served("rtx4090-ollama", models=MODELS, slots=SLOTS, time_scale=SCALE, ignore_eos=True)
        spec = BackendSpec(name="e", kind="ollama", url=await stack.enter_async_context(engine), max_in_flight=SLOTS)
        store, *stores = [await open_store(real_redis.url, prefix="swaps") for _ in range(3)]
        for one in (store, *stores):
            stack.push_async_callback(one.aclose)
        door = await stack.enter_async_context(gate(store))
        await stack.enter_async_context(working(store, spec, crew=2, stores=stores))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        still = Standstill()
        watching = group.create_task(still.watch())
        asks = []
        for number in range(COUNT):
            asks.append(group.create_task(ask(door, MODELS[number % 2])))
            await asyncio.sleep(chance.expovariate(0.7 * PER_S) * SCALE)
        done = await asyncio.gather(*asks)
        watching.cancel()
    for (before_at, _), (at, model) in pairwise(loads.seen):
        waiting = [one for one in done if one.model == model and one.came_at < at < one.began_at]
        assert not waiting or (at - before_at) / SCALE >= SWAP_S, "so soon, while jobs of the loaded model waited"
    assert len(loads.seen) >= 4
    # The engine's time runs by the clock, also while nobody here does.
    assert max(one.wait_s for one in done) <= SWAP_S + LOAD_S + 3 * RUN_S + still.for_s / SCALE
