"""A back end that stands in for others: idle in normal times, there when they are not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buffer.backend import ModelInfo
from buffer.job import End
from buffer.load import BackendState
from buffer.store import Store
from tests.rig.script import DONE, HEAD, HOLD, RST, Piece, Status, Wait, answer, finish, role
from tests.rig.scripted import Scripted
from tests.worker.rig import Crew, Gate, now, quiet, settings, spec, working
from worker.engine import Engine
from worker.stand_in import UNKNOWN_S, StandIn

WHOLE = End("done")
OOM = Status(500, {"error": {"message": "CUDA error: out of memory"}})


def gpu(engine: Scripted, **more: Any) -> Any:
    return spec(engine, name="gpu", **more)


def cpu(engine: Scripted, **more: Any) -> Any:
    return spec(engine, name="cpu", fallback_for=["gpu"], **more)


def engine_of(crew: Crew, name: str, worker: int = 0) -> Engine:
    return next(engine for engine in crew.workers[worker].pools[0].engines if engine.name == name)


def fallbacks(crew: Crew, worker: int = 0) -> float:
    return float(crew.workers[worker].pools[0].telemetry.fallbacks.labels("cpu")._value.get())


async def until(what: Any, *looks: Engine) -> None:
    """Waits for what becomes true when these back ends are looked at."""
    async with asyncio.timeout(8):
        while not what():
            for engine in looks:
                engine.look.set()
            await asyncio.sleep(0.02)


async def test_it_steals_nothing(store: Store, door: Gate) -> None:
    """Also while jobs wait for the other one."""
    go = asyncio.Event()
    async with (
        Scripted("openai", script=lambda _: [Wait(go), *answer("openai", "well")]) as one,
        Scripted("openai") as two,
        working(store, gpu(one, max_in_flight=1), cpu(two)) as crew,
    ):
        asks = [await door.ask() for _ in range(3)]
        await one.received(1)
        engine_of(crew, "cpu").wake.set()
        await asyncio.sleep(0.3)
        go.set()
        assert [await ask.end() for ask in asks] == [WHOLE] * 3
        assert (len(one.requests), len(two.requests)) == (3, 0)
        assert fallbacks(crew) == 0
    await quiet(door.lanes)


async def test_it_works_while_the_other_is_down(store: Store, door: Gate) -> None:
    async with Scripted("openai") as one, Scripted("openai", models=["small"]) as two:
        port = one.port
        async with working(store, gpu(one), cpu(two, models={"m-oai": "small"})) as crew:
            await one.__aexit__()
            await until(lambda: not engine_of(crew, "gpu").up, engine_of(crew, "gpu"))
            ask = await door.ask("marker:down words:1")
            assert await ask.end() == WHOLE
            assert ask.text == "down 1"
            assert two.requests[0].json()["model"] == "small"
            assert fallbacks(crew) == 1
            own = await door.ask("marker:own words:1", model="small")
            assert await own.end() == WHOLE
            assert fallbacks(crew) == 1, "a model of its own alone: it stands in for nobody"
            async with Scripted("openai", port=port) as back:
                await until(lambda: engine_of(crew, "gpu").up, engine_of(crew, "gpu"))
                assert await (await door.ask()).end() == WHOLE
                assert (len(back.requests), len(two.requests)) == (1, 2)
    await quiet(door.lanes)


async def test_it_works_while_the_other_s_breaker_is_not_closed(store: Store, door: Gate) -> None:
    config = settings(breaker_failures=2, breaker_cooldown_seconds=0.5)
    hung = asyncio.Event()
    async with (
        Scripted("openai", script=lambda _: [OOM]) as one,
        Scripted("openai") as two,
        working(store, gpu(one), cpu(two), config=config) as crew,
    ):
        for _ in range(2):
            assert await (await door.ask()).end() == WHOLE
        assert engine_of(crew, "gpu").breaker.state(now()) == "open"
        seen = len(one.requests)
        assert await (await door.ask()).end() == WHOLE
        assert (len(one.requests), len(two.requests)) == (seen, 3)
        # Half open: one job tries it, the others need not wait for that.
        one.script = lambda _: [Wait(hung), *answer("openai", "well")]
        await until(lambda: engine_of(crew, "gpu").breaker.state(now()) == "half-open")
        asks = [await door.ask() for _ in range(4)]
        await until(lambda: len(one.requests) > seen or len(two.requests) >= 7)
        hung.set()
        assert [await ask.end() for ask in asks] == [WHOLE] * 4
    await quiet(door.lanes)


FAILURES: dict[str, list[Piece]] = {
    "out of memory": [OOM],
    "busy": [Status(503, {"error": "full"})],
    "a reset": [HEAD, RST],
    "an error in the stream": [role(), {"error": {"message": "boom"}}],
    "a web page": [Status(200, "<html></html>", "text/html")],
    "silence": [HOLD],
    "an abort": [role(), finish("abort"), DONE],
}


@pytest.mark.parametrize("trouble", FAILURES)
async def test_it_takes_a_job_that_the_other_has_just_failed(store: Store, door: Gate, trouble: str) -> None:
    config = settings(first_token_timeout_seconds=0.3)
    async with (
        Scripted("openai") as one,
        Scripted("openai") as two,
        working(store, gpu(one, max_in_flight=2), cpu(two, max_in_flight=1), config=config) as crew,
    ):
        one.once = [FAILURES[trouble]]
        ask = await door.ask("marker:one words:2")
        assert await ask.end() == WHOLE
        assert ask.text == "one 1 2"
        assert (len(one.requests), len(two.requests)) == (1, 1)
        assert fallbacks(crew) == 1
        assert await (await door.ask()).end() == WHOLE
        assert (len(one.requests), len(two.requests)) == (2, 1), "the next one is not its business"
    await quiet(door.lanes)


async def test_a_crowd_that_waits_hides_no_failed_job(store: Store, door: Gate) -> None:
    go = asyncio.Event()
    async with (
        Scripted("openai", script=lambda _: [Wait(go), *answer("openai", "well")]) as one,
        Scripted("openai") as two,
        working(store, gpu(one, max_in_flight=1), cpu(two, max_in_flight=1)),
    ):
        one.once = [[Wait(go), OOM]]
        first = await door.ask("marker:first words:1", lane="slow")
        await one.received(1)
        crowd = [await door.ask(lane="fast") for _ in range(40)]
        go.set()
        assert await first.end(5) == WHOLE
        assert first.text == "first 1"
        assert [await ask.end() for ask in crowd] == [WHOLE] * 40
        assert len(two.requests) == 1
    await quiet(door.lanes)


async def test_it_goes_on_with_what_the_other_began(store: Store, door: Gate) -> None:
    async with (
        Scripted("openai", kind="vllm") as one,
        Scripted("openai", kind="llamacpp") as two,
        working(store, gpu(one), cpu(two)),
    ):
        one.once = [[role(), "hi", " 1", RST]]
        ask = await door.ask("marker:hi words:3")
        assert await ask.end() == WHOLE
        assert ask.text == "hi 1 2 3"
        assert two.requests[0].json()["messages"][-1]["content"] == "hi 1"


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_a_request_s_own_fault_is_nobody_else_s_business(store: Store, door: Gate, status: int) -> None:
    async with (
        Scripted("openai", script=lambda _: [Status(status, {"error": {"message": "no"}})]) as one,
        Scripted("openai") as two,
        working(store, gpu(one), cpu(two), config=settings(breaker_failures=1)) as crew,
    ):
        for _ in range(3):
            end = await (await door.ask()).end()
            assert end.failure is not None
            assert end.failure.status == status
        assert (len(one.requests), len(two.requests)) == (3, 0)
        assert engine_of(crew, "gpu").breaker.state(now()) == "closed"


async def test_two_workers_with_a_back_end_each(store: Store, door: Gate) -> None:
    """What the one does not run, it knows by what the other tells."""
    async with (
        Scripted("openai") as one,
        Scripted("openai") as two,
        working(store, gpu(one)) as left,
        working(store, cpu(two)) as right,
    ):
        here, there = engine_of(left, "gpu"), engine_of(right, "cpu")
        assert there.stand_in is not None
        covers = there.stand_in.covers
        await until(lambda: len(left.workers[0].pools[0].states) == 2 and not covers("m-oai"), here, there)
        assert await (await door.ask()).end() == WHOLE
        assert (len(one.requests), len(two.requests)) == (1, 0)
        one.once = [[OOM]]
        assert await (await door.ask()).end() == WHOLE
        assert (len(one.requests), len(two.requests)) == (2, 1)
        assert fallbacks(right) == 1
        await one.__aexit__()
        await until(lambda: not here.up and covers("m-oai"), here, there)
        assert await (await door.ask()).end() == WHOLE
        assert len(two.requests) == 2
    await quiet(door.lanes)


def state(name: str, *models: str, **more: Any) -> BackendState:
    return BackendState(name=name, kind="vllm", up=more.pop("up", True), models=[ModelInfo(m) for m in models], **more)


def test_what_nobody_tells_of_counts_as_gone_once_there_was_time_to_tell() -> None:
    clock = [0.0]
    it = StandIn(["a", "b"], lambda: clock[0])
    assert (it.for_whom("m"), it.covers("m"), it.unknown()) == (["a", "b"], False, [])
    it.hear([state("b", "m"), state("c", "m")])
    clock[0] = UNKNOWN_S
    assert (it.covers("m"), it.unknown()) == (False, ["a"])
    for out in (state("b", "m", up=False), state("b", "m", breaker_open=True), state("b", "m", trial=True)):
        it.hear([out])
        assert it.covers("m")
    it.hear([state("a", "m", up=False), state("b", "n")])
    assert (it.for_whom("m"), it.covers("m")) == (["a"], True)
    assert (it.for_whom("x"), it.covers("x")) == ([], True), "its own alone"
    assert (it.for_whom("n"), it.covers("n")) == (["b"], False)


async def test_nothing_is_taken_before_the_other_was_looked_at(store: Store, door: Gate) -> None:
    async with (
        Scripted("openai", kind="vllm") as engine,
        Scripted("openai") as spare,
        working(store, gpu(engine), spec(spare, name="spare", fallback_for=["gpu"])) as crew,
    ):
        principal, second = engine_of(crew, "gpu"), engine_of(crew, "spare")
        stand_in = second.stand_in
        assert stand_in is not None
        principal.looked_at, served, principal._upstream = False, principal._upstream, {}
        assert (stand_in.for_whom("m-oai"), stand_in.covers("m-oai")) == (["gpu"], False)
        principal.looked_at, principal._upstream = True, served
    await quiet(door.lanes)
