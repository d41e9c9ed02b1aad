"""Answers that are handed on in their middle: by a back end that cannot, a worker that stops, or nobody at all."""

from __future__ import annotations

import asyncio

import pytest

from buffer.fold import Folded, fold
from buffer.lanes import Lanes
from buffer.load import read_states
from buffer.store import Store
from tests.rig.script import HOLD, RST, Status, Wait, finish, role, tool
from tests.rig.scripted import Scripted
from tests.worker.rig import Crew, Gate, gate, now, quiet, settings, spec, worker, working
from tests.worker.test_going_on import ANSWER, PROMPT, TOOL, WHOLE, chat


async def test_one_that_cannot_hands_it_to_one_that_can(store: Store, door: Gate) -> None:
    sent = asyncio.Event()
    async with (
        Scripted("openai", kind="vllm") as able,
        Scripted("openai") as unable,
        working(store, spec(able, name="able", max_in_flight=1), spec(unable, name="unable")) as crew,
    ):
        engines = crew.workers[0].pools[0].engines
        async with asyncio.timeout(10):
            while not all(engine.quiet for engine in engines):
                await asyncio.sleep(0.01)  # a pull that is under way would take the job
        breaker = engines[1].breaker
        for _ in range(3):
            breaker.failed(now())  # nothing goes there yet
        able.once = [[role(), "hi", Wait(sent), RST]]
        ask = await door.ask(PROMPT)
        await ask.begin()
        breaker.succeeded()
        sent.set()
        assert await ask.end() == WHOLE
        assert ask.text == ANSWER
        assert unable.requests == []
        assert len(able.requests) == 2
    await quiet(door.lanes)


async def test_a_whole_answer_goes_on_too(store: Store, door: Gate) -> None:
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine)):
        engine.once = [[role(), "hi", " 1", RST]]
        ask = await door.ask(PROMPT, stream=False)
        assert await ask.end() == WHOLE
        assert ask.text == ANSWER
        assert engine.requests[1].json()["messages"][-1]["content"] == "hi 1"
        engine.once = [[role(), "hi", tool(0, '{"a', call_id="c", name="f"), RST]]
        ask = await door.ask(PROMPT, stream=False)
        assert await ask.end() == WHOLE
        assert ask.text == ANSWER, "begun anew"
        assert engine.requests[3].json()["messages"][-1]["role"] == "user"
        engine.once = [[role(), "hi", RST], [Status(400, {"error": {"message": "no beginnings"}})]]
        ask = await door.ask(PROMPT, stream=False)
        assert await ask.end() == WHOLE
        assert ask.text == ANSWER, "it takes no beginnings"
        assert engine.requests[6].json()["messages"][-1]["role"] == "user"


async def test_a_worker_that_stops_hands_over_what_it_has_begun(store: Store, door: Gate) -> None:
    config = settings(drain_seconds=0.1)
    async with Scripted("openai", kind="vllm") as engine:
        engine.once = [[role(), "hi", " 1", HOLD]]
        async with working(store, spec(engine), config=config):
            ask = await door.ask(PROMPT)
            await ask.begin()
        async with working(store, spec(engine), config=config):
            assert await ask.end() == WHOLE
            assert ask.text == ANSWER
        body = chat(tools=[TOOL])
        engine.once = [[role(), tool(0, '{"a', call_id="c", name="f"), HOLD]]
        async with working(store, spec(engine), config=config):
            ask = await door.ask(body=body)
            await engine.received(3)
        end = await ask.end()
        assert end.failure is not None
        assert end.failure.code == "worker_stopped"
    await quiet(door.lanes)


@pytest.mark.parametrize("trouble", ["it stops", "its engine breaks"])
@pytest.mark.parametrize("forgets", [False, True])
async def test_whoever_knows_of_nobody_that_can_go_on_asks(
    store: Store, door: Gate, trouble: str, *, forgets: bool
) -> None:
    """The other worker has only just come; or it was known, and the store has lost what it told."""
    config = settings(drain_seconds=0.1)
    breaks = asyncio.Event()
    async with (
        Scripted("openai", kind="vllm") as able,
        Scripted("openai") as unable,
        working(store, spec(unable, name="unable"), config=config) as crew,
    ):
        pool = crew.workers[0].pools[0]
        unable.once = [[role(), "hi", " 1", Wait(breaks), RST]]
        ask = await door.ask(PROMPT)
        await ask.begin()
        async with working(store, spec(able, name="able"), config=config):
            while "able" not in {one.name for one in await read_states(store, pool.lanes.keys)}:
                await asyncio.sleep(0.01)
            if forgets:
                await pool.hear()
                await store.redis.delete(pool.lanes.keys.state("able"), pool.lanes.keys.state("unable"))
                assert await pool.hear() == []
            if trouble == "it stops":
                crew.stop.set()
            else:
                breaks.set()
            assert await ask.end() == WHOLE
            assert ask.text == ANSWER
        assert (len(able.requests), len(unable.requests)) == (1, 1)
    await quiet(door.lanes)


async def orphaned(store: Store, engine: Scripted, body: bytes, pieces: int) -> tuple[Lanes, str]:
    """A detached job, so many events into its answer, whose worker and gateway have died; it waits again."""
    first = Crew([worker(store, [spec(engine)], settings(lease_seconds=0.5))])
    async with gate(store) as door:
        await first.up()
        ask = await door.ask(body=body, det=True)
        while len(fold(await door.lanes.reply(ask.id)).events) < pieces:
            await asyncio.sleep(0.02)
    await first.kill()
    async with asyncio.timeout(10):
        while (await door.lanes.place(ask.id)).state != "waiting":
            await door.lanes.reap(0.5, 0.2)
            await asyncio.sleep(0.05)
    return door.lanes, ask.id


async def folded(lanes: Lanes, id: str) -> Folded:
    """The answer, once it has ended."""
    async with asyncio.timeout(10):
        while (answer := fold(await lanes.reply(id))).end is None:
            await asyncio.sleep(0.05)
    return answer


async def test_a_job_without_a_gateway_goes_on_from_its_reply_key(store: Store) -> None:
    async with Scripted("openai", kind="vllm") as engine:
        engine.once = [[role(), "hi", " 1", HOLD]]
        lanes, id = await orphaned(store, engine, chat(max_tokens=9), 2)
        async with working(store, spec(engine)):
            answer = await folded(lanes, id)
        assert answer.end == WHOLE
        assert answer.whole().text == ANSWER
        assert engine.requests[1].json()["messages"][-1]["content"] == "hi 1"
        assert engine.requests[1].json()["max_tokens"] == 7


async def test_unless_nobody_can(store: Store) -> None:
    call = tool(0, '{"a', call_id="c", name="f")
    async with Scripted("openai", kind="vllm") as engine:
        engine.once = [[role(), call, HOLD]]
        lanes, id = await orphaned(store, engine, chat(tools=[TOOL]), 1)
        async with working(store, spec(engine)):
            answer = await folded(lanes, id)
        assert answer.end is not None
        assert answer.end.failure is not None
        assert answer.end.failure.code == "broken_off"
        assert len(engine.requests) == 1


async def test_one_that_had_come_to_its_end_is_done(store: Store) -> None:
    async with Scripted("openai", kind="vllm") as engine:
        engine.once = [[role(), "hi", finish(), HOLD]]
        lanes, id = await orphaned(store, engine, chat(), 2)
        async with working(store, spec(engine)):
            answer = await folded(lanes, id)
        assert (answer.end, answer.whole().text, len(engine.requests)) == (WHOLE, "hi", 1)
