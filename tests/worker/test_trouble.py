"""What goes wrong at back ends, and what becomes of the jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from buffer.job import End
from buffer.lanes import Lanes
from buffer.records import Pulled
from buffer.store import Store
from tests.rig.connection import Recorded
from tests.rig.script import CUT, HOLD, RST, Piece, Status, Wait, answer, role
from tests.rig.scripted import Scripted
from tests.worker.rig import Gate, now, quiet, settings, spec, working

DONE = End("done")
BUSY = Status(500, {"error": {"message": "no luck"}})


async def dead_letters(door: Gate) -> int:
    return int(await door.lanes.store.redis.xlen(door.lanes.keys.dead))


@pytest.mark.parametrize("trouble", [BUSY, RST, CUT, Status(503, {"error": {"message": "full"}})])
async def test_tried_again_before_the_first_token(store: Store, door: Gate, trouble: Piece) -> None:
    async with Scripted("openai") as engine, working(store, spec(engine)):
        engine.once = [[trouble], [role(), trouble]] if not isinstance(trouble, Status) else [[trouble], [trouble]]
        ask = await door.ask("marker:again words:3")
        assert await ask.end() == DONE
        assert ask.text == "again 1 2 3"
        assert len(engine.requests) == 3
    await quiet(door.lanes)
    assert await dead_letters(door) == 0


async def test_another_back_end_gets_it_if_there_is_one(store: Store, door: Gate) -> None:
    async with (
        Scripted("openai", script=lambda _: [BUSY]) as broken,
        Scripted("openai") as sound,
        working(store, spec(broken), spec(sound), config=settings(max_attempts=2)),
    ):
        for k in range(6):
            ask = await door.ask(f"marker:m{k}")
            assert (await ask.end()).kind == "done"
            assert ask.text.startswith(f"m{k} ")
        assert len(broken.requests) <= 3, "its breaker opens"
        assert len(sound.requests) == 6


async def test_attempts_are_counted_spread_and_end_in_a_dead_letter(store: Store, door: Gate) -> None:
    config = settings(breaker_failures=100)
    async with Scripted("openai", script=lambda _: [BUSY]) as engine, working(store, spec(engine), config=config):
        ask = await door.ask()
        end = await ask.end()
        assert (end.kind, ask.text, len(engine.requests)) == ("failed", "", 3)
        assert end.failure is not None
        assert end.failure.status >= 500
        first, second, third = (request.at for request in engine.requests)
        assert second - first >= 0.09
        assert third - second >= 0.18
    assert await dead_letters(door) == 1
    await quiet(door.lanes)


async def test_its_own_fault_is_passed_on_once_and_does_not_count(store: Store, door: Gate) -> None:
    wrong = Status(400, {"error": {"message": "bad temperature", "type": "invalid_request_error"}})
    config = settings(breaker_failures=1)
    async with Scripted("openai") as engine, working(store, spec(engine), config=config):
        engine.once = [[wrong]]
        ask = await door.ask()
        end = await ask.end()
        assert end.kind == "failed"
        assert end.failure is not None
        assert end.failure.status == 400
        assert (await (await door.ask()).end()).kind == "done", "the breaker stayed closed"
        assert len(engine.requests) == 2
    assert await dead_letters(door) == 0


async def test_a_busy_back_end_gets_it_though_a_broken_one_is_free(store: Store, door: Gate) -> None:
    """Three workers, and a sound back end whose one place is taken: no attempt is wasted on the broken one again."""
    go = asyncio.Event()
    async with (
        Scripted("openai", script=lambda _: [BUSY]) as broken,
        Scripted("openai") as sound,
        working(store, spec(broken, name="broken"), spec(sound, name="sound", max_in_flight=1), crew=3) as crew,
    ):
        sound.once = [[role(), "busy", Wait(go), *answer("openai", "")]]
        for one in crew.workers:
            one.pools[0].engines[0].breaker.failures = 100
        asks = [await door.ask(f"marker:m{i} words:1") for i in range(4)]
        await sound.received(1)
        await broken.received(3)
        go.set()
        assert [(await ask.end()).kind for ask in asks] == ["done"] * 4
        assert len(broken.requests) <= 4
    await quiet(door.lanes)


async def test_never_told_again_once_text_has_been_sent(store: Store, door: Gate) -> None:
    async with Scripted("openai") as engine, working(store, spec(engine)):
        engine.once = [[role(), "one", " two", RST]]
        ask = await door.ask()
        end = await ask.end()
        assert (end.kind, ask.text, len(engine.requests)) == ("failed", "one two", 1)
    await quiet(door.lanes)


async def test_an_answer_in_one_piece_begins_anew_wherever_it_broke_off(store: Store, door: Gate) -> None:
    async with Scripted("openai") as engine, working(store, spec(engine)):
        engine.once = [[role(), "one", " two", RST]]
        ask = await door.ask("marker:hi words:2", stream=False)
        end = await ask.end()
        assert (end.kind, ask.text, len(engine.requests)) == ("done", "hi 1 2", 2)
    await quiet(door.lanes)


async def test_an_open_breaker_keeps_jobs_away_and_lets_one_try(store: Store, door: Gate) -> None:
    config = settings(breaker_failures=2, breaker_cooldown_seconds=0.6, max_attempts=1)
    async with Scripted("openai") as engine, working(store, spec(engine, max_in_flight=4), config=config) as crew:
        breaker = crew.workers[0].pools[0].engines[0].breaker
        engine.once = [[BUSY], [BUSY]]
        for _ in range(2):
            assert (await (await door.ask()).end()).kind == "failed"
        opened = now()
        assert breaker.state(opened) == "open"
        gone = asyncio.Event()
        engine.script = lambda _: iter([Wait(gone), *answer("openai", "well")])
        asks = [await door.ask() for _ in range(3)]
        trial = await engine.received(3)
        assert trial.at - opened > 0.5
        assert len(engine.requests) == 3, "one tries, the others wait for its end"
        gone.set()
        assert {(await ask.end()).kind for ask in asks} == {"done"}
        assert breaker.state(now()) == "closed"


async def test_jobs_wait_for_a_back_end_that_is_away_and_start_when_it_is_back(store: Store, door: Gate) -> None:
    async with Scripted("openai") as engine:
        port = engine.port
        one = spec(engine)
        async with working(store, one) as crew:
            await engine.__aexit__()
            ask = await door.ask("marker:patient words:1")
            target = crew.workers[0].pools[0].engines[0]
            async with asyncio.timeout(5):
                while target.up or (await door.lanes.place(ask.id)).state != "waiting":
                    await asyncio.sleep(0.01)
            async with Scripted("openai", port=port):
                assert (await ask.end()).kind == "done"
                assert ask.text == "patient 1"


async def test_a_body_that_nobody_can_read_is_a_dead_letter(store: Store, door: Gate) -> None:
    async with Scripted("openai") as engine, working(store, spec(engine)):
        end = await (await door.ask(body=b"{not json")).end()
        assert end.kind == "failed"
        assert engine.requests == []
        assert await dead_letters(door) == 1
        assert (await (await door.ask()).end()).kind == "done"


async def test_a_queued_job_that_is_cancelled_never_starts(store: Store, door: Gate) -> None:
    free = asyncio.Event()

    def script(_: Recorded) -> Iterator[Piece]:
        yield Wait(free)
        yield from answer("openai", "x")

    async with Scripted("openai", script=script) as engine, working(store, spec(engine, max_in_flight=1)):
        first = await door.ask()
        await engine.received(1)
        queued = await door.ask()
        assert await door.lanes.cancel(queued.id) == "cancelled"
        assert (await queued.end()).kind == "cancelled"
        free.set()
        assert (await first.end()).kind == "done"
        assert len(engine.requests) == 1
    await quiet(door.lanes)


@pytest.mark.parametrize("pieces", [[HOLD], [role(), "so", HOLD]])
async def test_cancelling_closes_the_engine_s_connection(store: Store, door: Gate, pieces: list[Piece]) -> None:
    async with Scripted("openai", script=lambda _: pieces) as engine, working(store, spec(engine, max_in_flight=1)):
        ask = await door.ask()
        request = await engine.received(1)
        if len(pieces) > 1:
            await ask.begin()
        began = now()
        assert await door.lanes.cancel(ask.id) == "running"
        async with asyncio.timeout(1):
            await request.closed.wait()
        assert (await ask.end()).kind == "cancelled"
        assert now() - began < 1.0
        engine.script = None
        assert (await (await door.ask()).end()).kind == "done", "its place is free"
    await quiet(door.lanes)


async def test_a_cancel_that_overtakes_the_grant_counts(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = Lanes.pull

    async def late(lanes: Lanes, *args: Any, **more: Any) -> Pulled:
        pulled = await pull(lanes, *args, **more)
        for job in pulled.jobs:
            assert await door.lanes.cancel(job.id) == "running"
            while job.id not in pool.cancelled:
                await asyncio.sleep(0.005)
        return pulled

    # Before the worker starts: one of its pulls may be under way when the chat comes.
    monkeypatch.setattr(Lanes, "pull", late)
    async with Scripted("openai") as engine, working(store, spec(engine), config=settings(lease_seconds=60)) as crew:
        pool = crew.workers[0].pools[0]
        assert (await (await door.ask()).end(5)).kind == "cancelled"
        assert not engine.requests
        assert not pool.cancelled


async def test_cancelled_between_two_attempts(store: Store, door: Gate) -> None:
    config = settings(max_attempts=10, breaker_failures=100)
    async with Scripted("openai", script=lambda _: [BUSY]) as engine, working(store, spec(engine), config=config):
        ask = await door.ask()
        await engine.received(3)
        await door.lanes.cancel(ask.id)
        assert (await ask.end()).kind == "cancelled"
    await quiet(door.lanes)


async def test_a_slow_reader_s_engine_is_left_unread(store: Store, door: Gate) -> None:
    first, later = asyncio.Event(), asyncio.Event()

    def script(_: Recorded) -> Iterator[Piece]:
        yield from (role(), "one")
        yield Wait(first)
        yield " two"
        yield Wait(later)
        yield from answer("openai", " three")[1:]

    async with Scripted("openai", script=script) as engine, working(store, spec(engine)) as crew:
        ask = await door.ask()
        await ask.begin()
        replies = crew.workers[0].pools[0].replies
        assert await door.lanes.signal(ask.id, "pause")
        async with asyncio.timeout(5):
            while not replies.blocked(ask.id):
                await asyncio.sleep(0.005)
        first.set()
        later.set()
        assert await door.lanes.signal(ask.id, "go")
        assert (await ask.end()).kind == "done"
        assert ask.text == "one two three"
