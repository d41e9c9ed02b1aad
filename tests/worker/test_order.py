"""Who goes first, and when: through a real store, to engines that write down what they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from buffer.gauges import read_gauges
from buffer.store import Store, open_store
from tests.rig.connection import Recorded
from tests.rig.redis_server import RedisServer
from tests.rig.script import Piece, Sleep, Status, Wait, answer
from tests.rig.scripted import Scripted
from tests.worker.rig import Gate, gate, markers, now, quiet, settings, spec, working


async def beside(store: Store, real_redis: RedisServer, count: int, stack: AsyncExitStack) -> list[Store]:
    """More connections to the same store: the embedded one is shared, a Redis is opened anew."""
    if store.embedded:
        return [store] * count
    stores = [await open_store(real_redis.url, prefix=store.prefix) for _ in range(count)]
    for one in stores:
        stack.push_async_callback(one.aclose)
    return stores


@pytest.mark.parametrize("crew", [1, 4])
async def test_twelve_jobs_put_in_while_the_engine_is_full(
    store: Store, door: Gate, real_redis: RedisServer, crew: int
) -> None:
    free = asyncio.Event()

    def script(request: Recorded) -> Iterator[Piece]:
        if b"marker:first" in request.body:
            yield Wait(free)
        yield from answer("openai", "said")

    async with AsyncExitStack() as stack:
        stores = await beside(store, real_redis, crew, stack)
        engine = await stack.enter_async_context(Scripted("openai", script=script))
        await stack.enter_async_context(working(store, spec(engine, max_in_flight=1), crew=crew, stores=stores))
        asks = [await door.ask("marker:first")]
        await engine.received(1)
        for k in range(4):
            asks.append(await door.ask(f"marker:slow{k}", lane="slow"))
            asks.append(await door.ask(f"marker:fast{k}", lane="fast"))
            asks.append(await door.ask(f"marker:thinking{k}", lane="thinking"))
        free.set()
        ends = await asyncio.gather(*(ask.end() for ask in asks))
        assert [end.kind for end in ends] == ["done"] * 13
        assert {ask.text for ask in asks} == {"said"}
        expected = [f"{lane}{k}" for lane in ("thinking", "fast", "slow") for k in range(4)]
        assert markers(engine) == ["first", *expected]
        assert engine.most_running == 1
    await quiet(door.lanes)


async def test_what_collected_while_the_engine_was_full_goes_as_a_batch(store: Store, door: Gate) -> None:
    free = asyncio.Event()
    async with (
        Scripted("openai", script=lambda _: iter([Wait(free), *answer("openai", "x")])) as engine,
        working(store, spec(engine, max_in_flight=8), config=settings(batch_size=4)) as crew,
    ):
        pool = crew.workers[0].pools[0]
        asks = [await door.ask(f"marker:a{k}", lane="fast") for k in range(8)]
        await engine.received(8)
        more = [await door.ask(f"marker:b{k}", lane="fast") for k in range(4)]
        free.set()
        await asyncio.gather(*(ask.end() for ask in [*asks, *more]))
        samples = [one for metric in pool.telemetry.registry.collect() for one in metric.samples]
        sizes = {one.labels["le"]: one.value for one in samples if one.name == "doublebuffer_batch_size_bucket"}
        assert sizes["4.0"] == sizes["+Inf"], "no batch is larger than allowed"


async def test_an_idle_engine_never_waits_for_the_window(store: Store, door: Gate) -> None:
    config = settings(window_ms=5000)
    async with Scripted("openai") as engine, working(store, spec(engine), config=config):
        for k in range(3):
            began = now()
            ask = await door.ask(f"marker:m{k}")
            await engine.received(k + 1)
            assert now() - began < 1.0
            assert (await ask.end()).kind == "done"


async def test_the_fixed_window_is_waited_out_and_a_full_batch_goes_at_once(store: Store, door: Gate) -> None:
    config = settings(window_ms=1000, window_policy="fixed", batch_size=3)
    async with Scripted("openai") as engine, working(store, spec(engine), config=config):
        began = now()
        first = await door.ask("marker:a")
        second = await door.ask("marker:b")
        got = await engine.received(2)
        assert got.at - began > 0.9
        assert abs(engine.requests[0].at - engine.requests[1].at) < 0.4, "they went together"
        await asyncio.gather(first.end(), second.end())
        began = now()
        asks = [await door.ask(f"marker:c{k}") for k in range(3)]
        assert (await engine.received(5)).at - began < 0.8
        await asyncio.gather(*(ask.end() for ask in asks))


async def test_the_limit_holds_over_all_workers(store: Store, door: Gate, real_redis: RedisServer) -> None:
    def script(_: Recorded) -> list[Piece]:
        return [Sleep(0.01), *answer("openai", "one", " two")]

    async with AsyncExitStack() as stack:
        stores = await beside(store, real_redis, 3, stack)
        engine = await stack.enter_async_context(Scripted("openai", script=script))
        await stack.enter_async_context(working(store, spec(engine, max_in_flight=4), crew=3, stores=stores))
        asks = [await door.ask(f"marker:m{k}", lane="fast") for k in range(40)]
        ends = await asyncio.gather(*(ask.end() for ask in asks))
        assert {end.kind for end in ends} == {"done"}
        assert {ask.text for ask in asks} == {"one two"}
        assert engine.most_running == 4
        assert len(engine.requests) == 40
    await quiet(door.lanes)


async def test_a_full_back_end_holds_up_no_job_of_another_model(store: Store, door: Gate) -> None:
    free = asyncio.Event()
    async with (
        Scripted("openai", models=["a"], script=lambda _: iter([Wait(free), *answer("openai", "a")])) as full,
        Scripted("openai", models=["b"]) as idle,
        working(store, spec(full, max_in_flight=1), spec(idle, max_in_flight=1)),
    ):
        held = [await door.ask(model="a") for _ in range(3)]
        await full.received(1)
        quick = await door.ask(model="b", lane="slow")
        assert (await quick.end()).kind == "done"
        free.set()
        await asyncio.gather(*(ask.end() for ask in held))


async def test_ollama_gets_one_more_where_its_streams_overlap(store: Store, door: Gate) -> None:
    def script(_: Recorded) -> list[Piece]:
        return [piece for word in answer("ollama", *"abcdefghijklmnop") for piece in (Sleep(0.005), word)]

    async with Scripted("ollama", script=script) as engine, working(store, spec(engine)) as crew:
        limit = crew.workers[0].pools[0].engines[0]
        assert limit.limits().slots == 1
        asks = [await door.ask(f"marker:m{k}", lane="fast", model="m-oll") for k in range(24)]
        await asyncio.gather(*(ask.end() for ask in asks))
        assert limit.told_limit == engine.most_running == 4


async def test_jobs_of_the_loaded_model_go_first_where_models_are_swapped(store: Store, door: Gate) -> None:
    free = asyncio.Event()
    script = lambda _: iter([Wait(free), *answer("ollama", "x")])  # noqa: E731
    async with (
        Scripted("ollama", models=["a:1b", "b:1b"], script=script) as engine,
        working(store, spec(engine, max_in_flight=1)),
    ):
        asks = [await door.ask("marker:a0", model="a:1b")]
        await engine.received(1)
        asks += [await door.ask(f"marker:{name}", model=f"{name[0]}:1b") for name in ("b1", "b2", "a3", "a4")]
        free.set()
        assert {end.kind for end in await asyncio.gather(*(ask.end() for ask in asks))} == {"done"}
        assert markers(engine) == ["a0", "a3", "a4", "b1", "b2"]


async def test_pools_share_nothing(store: Store, door: Gate) -> None:
    async with (
        Scripted("openai", models=["m"]) as one,
        Scripted("openai", models=["m"]) as two,
        working(store, spec(one), spec(two, pool="other")),
        gate(store, "other") as other,
    ):
        assert (await (await door.ask("marker:here", model="m")).end()).kind == "done"
        assert (await (await other.ask("marker:there", model="m")).end()).kind == "done"
        assert (markers(one), markers(two)) == (["here"], ["there"])


async def test_what_the_metrics_show(store: Store, door: Gate) -> None:
    async with Scripted("openai") as engine, working(store, spec(engine, name="e")) as crew:
        engine.once = [[Status(500, {"error": {"message": "no"}})], [Status(400, {"error": {"message": "no"}})]]
        assert (await (await door.ask(lane="fast")).end()).kind == "failed"
        assert (await (await door.ask(lane="thinking")).end()).kind == "done"
        gauges = await read_gauges([door.lanes])
        text = crew.workers[0].pools[0].telemetry.exposition(gauges).decode()
    for line in (
        'doublebuffer_attempts_total{backend="e",result="failed"} 1.0',
        'doublebuffer_attempts_total{backend="e",result="refused"} 1.0',
        'doublebuffer_attempts_total{backend="e",result="ok"} 1.0',
        "doublebuffer_batch_size_count 3.0",
        "doublebuffer_batch_window_seconds_sum 0.0",
        'doublebuffer_in_flight{backend="e"} 0.0',
        'doublebuffer_in_flight_limit{backend="e"} 8.0',
        'doublebuffer_backend_up{backend="e"} 1.0',
        'doublebuffer_breaker_open{backend="e"} 0.0',
        "doublebuffer_workers 1.0",
    ):
        assert line in text.splitlines()
    assert await read_gauges([door.lanes]) == replace(gauges, workers=0), "a worker that stops says so"
