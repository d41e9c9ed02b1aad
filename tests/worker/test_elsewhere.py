"""A back end that refuses what another would take, through a fault of its own: a wrong key, a model that it lost."""

from __future__ import annotations

import asyncio

import pytest

from buffer.job import End
from buffer.store import Store
from tests.rig.script import Status, Wait, answer
from tests.rig.scripted import Scripted
from tests.worker.rig import Crew, Gate, now, quiet, settings, spec, working
from worker.engine import Engine

WHOLE = End("done")
KEY = [Status(401, {"error": "Unauthorized"}), Status(403, "<html>Forbidden</html>", "text/html")]
GONE = [
    Status(404, {"error": {"message": "The model `m-oai` does not exist.", "type": "NotFoundError", "code": 404}}),
    Status(404, {"error": "model 'm-oai' not found"}),
]
FAULTS = pytest.mark.parametrize("refusal", [*KEY, *GONE], ids=["401", "403", "404 of vLLM", "404 of Ollama"])


def engine_of(crew: Crew, name: str) -> Engine:
    return next(engine for one in crew.workers for engine in one.pools[0].engines if engine.name == name)


def refused(crew: Crew, name: str) -> float:
    return float(crew.workers[0].pools[0].telemetry.attempts.labels(name, "refused")._value.get())


def looks(engine: Scripted) -> int:
    return sum(request.path == "/v1/models" for request in engine.others)


async def looked_at(engine: Scripted, before: int) -> None:
    """Long before the next look would be due."""
    async with asyncio.timeout(1):
        while looks(engine) <= before:
            await asyncio.sleep(0.02)


@FAULTS
async def test_it_takes_no_job_down_that_another_can_answer(store: Store, door: Gate, refusal: Status) -> None:
    async with (
        Scripted("openai", script=lambda _: [refusal]) as one,
        Scripted("openai") as two,
        working(store, spec(one, name="one"), spec(two, name="two"), config=settings(breaker_failures=3)) as crew,
    ):
        before = looks(one)
        while len(one.requests) < 3:
            asks = [await door.ask("words:1") for _ in range(8)]
            assert [await ask.end() for ask in asks] == [WHOLE] * 8
        await looked_at(one, before)
        assert refused(crew, "one") == len(one.requests)
        assert engine_of(crew, "one").breaker.state(now()) == "open"
        assert engine_of(crew, "two").breaker.state(now()) == "closed"
        seen = len(one.requests)
        asks = [await door.ask("words:1") for _ in range(8)]
        assert [await ask.end() for ask in asks] == [WHOLE] * 8
        assert len(one.requests) == seen, "nothing goes there any more"
    await quiet(door.lanes)


@FAULTS
async def test_a_busy_one_is_waited_for(store: Store, door: Gate, refusal: Status) -> None:
    """However soon the one whose fault it is would have it again."""
    go = asyncio.Event()
    async with (
        Scripted("openai", script=lambda _: [refusal]) as one,
        Scripted("openai", script=lambda _: [Wait(go), *answer("openai", "well")]) as two,
        working(store, spec(two, name="two", max_in_flight=1)) as left,
    ):
        first = await door.ask()
        await two.received(1)
        async with working(store, spec(one, name="one")) as right:
            await heard_of(right, "two", "one")
            second = await door.ask()
            await one.received(1)
            await asyncio.sleep(2.5)
            go.set()
            assert [await first.end(), await second.end()] == [WHOLE] * 2
            assert (len(one.requests), len(two.requests)) == (1, 2)
        assert engine_of(left, "two").breaker.state(now()) == "closed"
    await quiet(door.lanes)


async def heard_of(crew: Crew, other: str, own: str) -> None:
    """Waits until a worker knows of another's back end."""
    pool = crew.workers[0].pools[0]
    async with asyncio.timeout(8):
        while not any(state.name == other and state.up for state in pool.states):
            engine_of(crew, own).look.set()
            await asyncio.sleep(0.02)


@FAULTS
async def test_one_that_stands_in_takes_it(store: Store, door: Gate, refusal: Status) -> None:
    async with (
        Scripted("openai", script=lambda _: [refusal]) as one,
        Scripted("openai") as two,
        working(store, spec(one, name="gpu"), spec(two, name="cpu", fallback_for=["gpu"])),
    ):
        ask = await door.ask("marker:one words:2")
        assert await ask.end() == WHOLE
        assert ask.text == "one 1 2"
        assert (len(one.requests), len(two.requests)) == (1, 1)
    await quiet(door.lanes)


@FAULTS
@pytest.mark.parametrize("other", ["none", "of another model"])
async def test_where_there_is_no_other_it_is_told_at_once(
    store: Store, door: Gate, refusal: Status, other: str
) -> None:
    async with (
        Scripted("openai", script=lambda _: [refusal]) as one,
        Scripted("openai", models=["m-other"]) as two,
        working(
            store, spec(one, name="one"), *([spec(two)] if other != "none" else []), config=settings(breaker_failures=1)
        ) as crew,
    ):
        for count in (1, 2, 3):
            before = looks(one)
            end = await (await door.ask()).end()
            assert end.failure is not None
            told = (end.failure.status, end.failure.code)
            assert told == ((404, "model_not_found") if refusal in GONE else (502, "upstream_auth"))
            assert len(one.requests) == count
            await looked_at(one, before)
        assert engine_of(crew, "one").breaker.state(now()) == "closed"
        one.script = None
        assert await (await door.ask()).end() == WHOLE
    await quiet(door.lanes)


@pytest.mark.parametrize("refusal", KEY, ids=["401", "403"])
async def test_two_with_a_wrong_key_say_so(store: Store, door: Gate, refusal: Status) -> None:
    async with (
        Scripted("openai", script=lambda _: [refusal]) as one,
        Scripted("openai", script=lambda _: [refusal]) as two,
        working(store, spec(one), spec(two), config=settings(breaker_failures=2)),
    ):
        for _ in range(6):
            end = await (await door.ask()).end(5)
            assert end.failure is not None
            assert (end.failure.status, end.failure.code) == (502, "upstream_auth")
        assert len(one.requests) + len(two.requests) < 16
    await quiet(door.lanes)


async def test_a_name_that_its_operator_gave_it_is_held_against_no_other_model(store: Store, door: Gate) -> None:
    """It never listed that model, and has no less of the others."""
    async with (
        Scripted("openai", models=["m-own"]) as one,
        Scripted("openai") as two,
        working(
            store,
            spec(one, name="one", models={"m-oai": "lost"}),
            spec(two, name="two", max_in_flight=1),
            config=settings(breaker_failures=1),
        ) as crew,
    ):
        one.script = lambda request: GONE[:1] if request.json()["model"] == "lost" else answer("openai", "well")
        while len(one.requests) < 2:
            asks = [await door.ask("words:1") for _ in range(8)]
            assert [await ask.end() for ask in asks] == [WHOLE] * 8
        assert engine_of(crew, "one").breaker.state(now()) == "closed"
        assert await (await door.ask(model="m-own")).end() == WHOLE
    await quiet(door.lanes)
