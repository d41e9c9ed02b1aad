"""A job that comes to the same worker a second time before it has done with the first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from buffer.store import Store
from tests.rig.script import HOLD, role
from tests.rig.scripted import Scripted
from tests.worker.rig import Gate, quiet, spec, working


async def test_granted_to_another_back_end_while_its_body_is_fetched(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Scripted("openai") as one,
        Scripted("openai") as other,
        working(store, spec(one), spec(other)) as crew,
    ):
        pool = crew.workers[0].pools[0]
        body, fetched, free = pool.lanes.body, asyncio.Semaphore(0), asyncio.Event()

        async def slow(ids: Sequence[str]) -> list[bytes | None]:
            fetched.release()
            await free.wait()
            return await body(ids)

        monkeypatch.setattr(pool.lanes, "body", slow)
        # One that is short comes with the job.
        ask = await door.ask("marker:twice words:2 " + "x" * 70_000)
        async with asyncio.timeout(5):
            await fetched.acquire()
            fence = (await door.lanes.place(ask.id)).fence
            inbox = door.inbox.name
            again = await door.lanes.requeue(ask.id, fence, snapshot="", base="", spent=0, inbox=inbox)
            assert again.status == "queued"
            await fetched.acquire()
        free.set()
        assert (await ask.end(5)).kind == "done"
        assert ask.text == "twice 1 2"
        async with asyncio.timeout(5):
            while any(engine.running for engine in pool.engines):
                await asyncio.sleep(0.005)
    await quiet(door.lanes)


async def test_taken_away_and_granted_again_the_first_attempt_ends_and_the_second_does_not(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the word that it is lost comes only now."""
    async with Scripted("openai") as engine, working(store, spec(engine)) as crew:
        pool = crew.workers[0].pools[0]
        engine.once = [[role(), "half", HOLD]]
        ask = await door.ask("marker:twice words:2")
        await engine.received(1)
        async with asyncio.timeout(5):
            while not pool.replies.written(ask.id):
                await asyncio.sleep(0.005)
        take = pool.take

        def late(*args: Any) -> Any:
            hand = take(*args)
            pool.replies._on_lost(ask.id)
            return hand

        monkeypatch.setattr(type(pool), "take", lambda _, *args: late(*args))
        fence = (await door.lanes.place(ask.id)).fence
        await door.lanes.requeue(ask.id, fence, snapshot="", base="", spent=0, inbox=door.inbox.name)
        async with asyncio.timeout(2):
            # Nothing is read before, so that it may begin anew.
            while ask.follower.fence == fence:
                await asyncio.sleep(0.005)
        assert (await ask.end(2)).kind == "done"
        assert ask.text == "twice 1 2"
        assert len(engine.requests) == 2
    await quiet(door.lanes)
