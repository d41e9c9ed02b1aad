"""Workers that die, that stop, and that lose their store."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from buffer.store import Store, open_store
from tests.rig.redis_server import run_redis
from tests.rig.script import HOLD, Wait, answer, role
from tests.rig.scripted import Scripted
from tests.worker.rig import Gate, gate, now, quiet, settings, spec, working


async def test_a_dead_worker_s_jobs_are_taken_over(store: Store, door: Gate) -> None:
    config = settings(lease_seconds=0.8)
    async with (
        Scripted("openai", script=lambda _: [HOLD]) as engine,
        working(store, spec(engine, max_in_flight=8), config=config) as first,
    ):
        unheard = [await door.ask(f"marker:m{k} words:2", lane="fast") for k in range(3)]
        await engine.received(3)
        engine.script = lambda _: [role(), "half", HOLD]
        begun = await door.ask("marker:begun")
        await begun.begin()
        await first.kill()
        engine.script = None
        async with working(store, spec(engine, max_in_flight=8), config=config) as second:
            ends = await asyncio.gather(*(ask.end() for ask in [*unheard, begun]))
            assert [end.kind for end in ends] == ["done"] * 3 + ["failed"]
            assert [ask.text for ask in [*unheard, begun]] == ["m0 1 2", "m1 1 2", "m2 1 2", "half"]
            taken = second.workers[0].pools[0].telemetry.taken_over
            assert sum(s.value for m in taken.collect() for s in m.samples if s.name.endswith("_total")) == 4
        await quiet(door.lanes)


async def test_stopping_lets_what_runs_finish_and_takes_nothing_new(store: Store, door: Gate) -> None:
    free = asyncio.Event()
    async with (
        Scripted("openai", script=lambda _: iter([role(), "on", Wait(free), *answer("openai", "ward")[1:]])) as engine,
        working(store, spec(engine, max_in_flight=1)) as crew,
    ):
        running, queued = await door.ask(), await door.ask()
        await running.begin()
        crew.stop.set()
        async with asyncio.timeout(2):
            while not crew.workers[0].pools[0].stopping:
                await asyncio.sleep(0.005)
        free.set()
        assert (await running.end()).kind == "done"
        assert running.text == "onward"
        await asyncio.gather(*crew.tasks)
        assert (await door.lanes.place(queued.id)).state == "waiting"
        assert len(engine.requests) == 1


async def test_a_place_that_a_stopping_worker_leaves_is_filled_by_another(store: Store, door: Gate) -> None:
    free = asyncio.Event()
    async with Scripted("openai", script=lambda _: iter([Wait(free), *answer("openai", "x")])) as engine:
        one = spec(engine, max_in_flight=1)
        async with working(store, one) as first:
            running = await door.ask()
            await engine.received(1)
            async with working(store, one) as second:
                queued = await door.ask()
                async with asyncio.timeout(5):
                    while not second.workers[0].pools[0].engines[0].short:
                        await asyncio.sleep(0.005)
                first.stop.set()
                async with asyncio.timeout(5):
                    while not first.workers[0].pools[0].stopping:
                        await asyncio.sleep(0.005)
                began = now()
                free.set()
                assert (await queued.end()).kind == "done"
                assert now() - began < 1.0
                assert (await running.end()).kind == "done"


async def test_the_prefill_credit_of_a_stopping_worker_s_job_is_used_by_another(store: Store, door: Gate) -> None:
    begin, free = asyncio.Event(), asyncio.Event()
    async with Scripted(
        "openai", script=lambda _: [Wait(begin), role(), "on", Wait(free), *answer("openai", "x")[1:]]
    ) as engine:
        one = spec(engine, max_in_flight=2)
        async with working(store, one) as first:
            running = await door.ask(prefill=900)
            await engine.received(1)
            first.stop.set()
            async with working(store, one) as second:
                engine.script = None
                queued = await door.ask(prefill=900)
                async with asyncio.timeout(5):
                    while not second.workers[0].pools[0].engines[0].short:
                        await asyncio.sleep(0.005)
                begin.set()
                assert (await queued.end(3)).kind == "done"
                free.set()
                assert (await running.end()).kind == "done"


async def test_after_the_drain_time_jobs_are_handed_back_or_ended(store: Store, door: Gate) -> None:
    config = settings(drain_seconds=0.1)
    async with Scripted("openai", script=lambda _: [HOLD]) as engine:
        async with working(store, spec(engine, max_in_flight=4), config=config) as crew:
            unheard = await door.ask("marker:unheard words:1")
            await engine.received(1)
            engine.script = lambda _: [role(), "half", HOLD]
            begun = await door.ask()
            await begun.begin()
            began = now()
            crew.stop.set()
            end = await begun.end()
            assert end.kind == "failed"
            assert end.failure is not None
            assert end.failure.status == 503
            await asyncio.gather(*crew.tasks)
            assert now() - began < 2.0
            assert (await door.lanes.place(unheard.id)).state == "waiting"
        engine.script = None
        async with working(store, spec(engine)):
            assert (await unheard.end()).kind == "done"
            assert unheard.text == "unheard 1"
    await quiet(door.lanes)


async def test_an_idle_worker_asks_for_nothing(store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(lease_seconds=0.4)
    async with Scripted("openai") as engine, working(store, spec(engine), config=config) as crew:
        lanes = crew.workers[0].pools[0].lanes
        assert (await (await door.ask()).end()).kind == "done"
        pulls, renewals = 0, asyncio.Semaphore(0)
        pull, renew = lanes.pull, lanes.renew

        async def count(*args: object, **more: object) -> object:
            nonlocal pulls
            pulls += 1
            return await pull(*args, **more)  # type: ignore[arg-type]

        async def renewed(*args: object, **more: object) -> object:
            renewals.release()
            return await renew(*args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(lanes, "renew", renewed)
        await renewals.acquire()
        monkeypatch.setattr(lanes, "pull", count)
        for _ in range(5):
            await renewals.acquire()
        assert pulls == 0
        began = now()
        assert (await (await door.ask()).end()).kind == "done"
        assert now() - began < 0.5, "the first job after the quiet is as fast as any"


async def test_a_renewal_beside_an_end_is_no_trouble(
    store: Store, door: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """Jobs end between the moment in which a renewal is made up and its answer: no warning, and no job is stopped."""
    async with Scripted("openai") as engine, working(store, spec(engine, max_in_flight=32)) as crew:
        pool = crew.workers[0].pools[0]
        for _ in range(5):
            asks = [await door.ask(f"marker:m{k}", lane="fast") for k in range(20)]
            ended = asyncio.gather(*(ask.end() for ask in asks))
            while not ended.done():
                pool.renew_now.set()
                await asyncio.sleep(0)
            assert {end.kind for end in await ended} == {"done"}
    assert [record for record in caplog.records if record.levelname != "INFO"] == []


async def test_the_store_goes_away_and_comes_back_empty() -> None:
    with run_redis() as server:
        store = await open_store(server.url, prefix=f"t{secrets.token_hex(4)}")
        config = settings(lease_seconds=1.0)
        async with Scripted("openai") as engine, working(store, spec(engine), config=config) as crew:
            async with gate(store) as door:
                assert (await (await door.ask()).end()).kind == "done"
            pool = crew.workers[0].pools[0]
            server.stop()
            async with asyncio.timeout(5):
                while pool.connected.is_set():
                    await asyncio.sleep(0.01)
            assert not any(task.done() for task in crew.tasks)
            server.start()
            async with asyncio.timeout(10):
                await pool.connected.wait()
            async with gate(store) as door:
                ask = await door.ask("marker:back words:1")
                assert (await ask.end()).kind == "done"
                assert ask.text == "back 1"
        await store.aclose()
