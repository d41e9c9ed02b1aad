"""An engine that is away for a moment: what was under way there waits for it, whichever worker would have it next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buffer.job import End
from buffer.store import Store
from tests.rig.script import RST, Status, Wait, role
from tests.rig.scripted import Scripted
from tests.worker.rig import Crew, Gate, gate, now, quiet, settings, spec, working
from tests.worker.test_going_on import ANSWER, PROMPT, WHOLE
from worker.engine import Engine

AWAY_S = 0.8


def engines(crew: Crew, name: str) -> list[Engine]:
    return [one for worker in crew.workers for one in worker.pools[0].engines if one.name == name]


async def failed_attempts(door: Gate, id: str) -> int:
    return int(await door.lanes.store.redis.hget(door.lanes.keys.job(id), "fails"))


async def begun(door: Gate, engine: Scripted, **more: Any) -> tuple[Any, asyncio.Event]:
    """A chat of which a word has been said; what breaks it off there."""
    breaks = asyncio.Event()
    engine.once = [[role(), "hi", Wait(breaks), RST]]
    ask = await door.ask(PROMPT, **more)
    await ask.begin()
    return ask, breaks


async def gone(engine: Scripted, breaks: asyncio.Event) -> None:
    """As ``kill`` would: what runs breaks off, and nobody listens any more."""
    ending = asyncio.create_task(engine.__aexit__())
    breaks.set()
    await ending


@pytest.mark.parametrize("crew", [1, 2, 4])
async def test_its_answers_wait_for_it(store: Store, door: Gate, crew: int) -> None:
    async with Scripted("openai", kind="vllm") as engine:
        port = engine.port
        async with working(store, spec(engine, name="big"), crew=crew) as them:
            ask, breaks = await begun(door, engine)
            await gone(engine, breaks)
            ending = asyncio.create_task(ask.end())
            await asyncio.sleep(AWAY_S)
            assert not ending.done(), ending.result()
            assert await failed_attempts(door, ask.id) <= 2
            assert not any(one.up for one in engines(them, "big")), "all have heard of it"
            async with Scripted("openai", kind="vllm", port=port):
                assert await ending == WHOLE
                assert ask.text == ANSWER
    await quiet(door.lanes)


async def test_one_refusal_is_heard_by_all_workers(store: Store, door: Gate) -> None:
    """Long before they would have looked themselves."""
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine, name="big"), crew=3) as crew:
        first, *others = engines(crew, "big")
        await engine.__aexit__()
        first.look.set()
        began = now()
        async with asyncio.timeout(3):
            while any(one.up for one in others):
                await asyncio.sleep(0.01)
        assert now() - began < 1.5


@pytest.mark.parametrize("crew", [1, 3])
async def test_a_busy_engine_is_given_time(store: Store, door: Gate, crew: int) -> None:
    busy = Status(503, {"error": {"message": "full"}})
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine), crew=crew):
        engine.once = [[busy], [busy]]
        began = now()
        assert await (await door.ask(PROMPT)).end() == WHOLE
        assert now() - began < 10
        first, second, third = (request.at for request in engine.requests)
        assert second - first > 0.45
        assert third - second > 0.9


@pytest.mark.parametrize("crew", [1, 2])
async def test_one_attempt_is_one(store: Store, door: Gate, crew: int) -> None:
    async with (
        Scripted("openai", kind="vllm", script=lambda _: [Status(503, {"error": "full"})]) as engine,
        working(store, spec(engine), crew=crew, config=settings(max_attempts=1, breaker_failures=100)),
    ):
        took = []
        for count in (1, 2, 3):
            began = now()
            assert (await (await door.ask()).end()).kind == "failed"
            took.append(now() - began)
            assert len(engine.requests) == count
        # The best of three: a pause before the end would be there each time, what a busy machine makes slow is not.
        assert min(took) < 0.4


async def test_whoever_left_it_may_die(store: Store, door: Gate) -> None:
    """Nobody rings when the time is over for which it was left."""
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine), crew=2) as crew:
        engine.once = [[Status(503, {"error": "full"})]]
        ask = await door.ask(PROMPT)
        await engine.received(1)
        while await failed_attempts(door, ask.id) == 0:
            await asyncio.sleep(0.005)
        had = [bool(worker.pools[0].engines[0].breaker._in_row) for worker in crew.workers]
        await crew.kill(had.index(True))
        assert await ask.end(8) == WHOLE


def fallback(engine: Scripted, **more: Any) -> Any:
    return spec(engine, fallback_for=["gpu"], **more)


@pytest.mark.parametrize("clouds", [1, 2])
@pytest.mark.parametrize("crew", [1, 2])
async def test_no_fallback_ends_what_it_cannot_go_on_with(store: Store, door: Gate, crew: int, clouds: int) -> None:
    async with Scripted("openai", kind="vllm") as gpu, Scripted("openai") as one, Scripted("openai") as two:
        port = gpu.port
        others = [fallback(cloud, name=f"cloud{cloud.port}") for cloud in (one, two)[:clouds]]
        async with working(store, spec(gpu, name="gpu"), *others, crew=crew):
            ask, breaks = await begun(door, gpu)
            await gone(gpu, breaks)
            ending = asyncio.create_task(ask.end())
            await asyncio.sleep(AWAY_S)
            assert not ending.done(), ending.result()
            assert await failed_attempts(door, ask.id) <= 2
            tries = int(await door.lanes.store.redis.hget(door.lanes.keys.job(ask.id), "tries"))
            assert tries <= 5, "it does not go to and fro"
            assert await (await door.ask("marker:new words:1")).end() == WHOLE
            assert [len(cloud.requests) for cloud in (one, two)].count(1) == 1, "what has no words yet goes there"
            async with Scripted("openai", kind="vllm", port=port) as back:
                assert await ending == WHOLE
                assert ask.text == ANSWER
                assert len(back.requests) == 1
    await quiet(door.lanes)


async def test_that_it_waits_has_an_end(store: Store) -> None:
    """The same as for any job that waits."""
    async with (
        gate(store, watch_s=0.2) as door,
        Scripted("openai", kind="vllm") as gpu,
        Scripted("openai") as cloud,
        working(store, spec(gpu, name="gpu"), fallback(cloud, name="cloud")),
    ):
        ask, breaks = await begun(door, gpu, timeout_us=1_500_000)
        await gone(gpu, breaks)
        began = now()
        end = await ask.end(8)
        assert (end.kind, ask.text, len(gpu.requests), cloud.requests) == ("expired", "hi", 1, [])
        assert 1 < now() - began < 5


async def test_where_nobody_may_go_on_it_ends(store: Store, door: Gate) -> None:
    config = settings(resume=False)
    async with (
        Scripted("openai", kind="vllm") as gpu,
        Scripted("openai") as cloud,
        working(store, spec(gpu, name="gpu"), fallback(cloud, name="cloud"), config=config),
    ):
        ask, breaks = await begun(door, gpu)
        await gone(gpu, breaks)
        end: End = await ask.end()
        assert end.kind == "failed"
        assert cloud.requests == []
