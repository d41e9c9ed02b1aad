"""Workers that die with work in hand: somebody else finishes it, or the client is told; nobody waits for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
import redis.asyncio

from buffer.lanes import Lanes
from buffer.records import Limits
from buffer.store import open_store
from tests.cases.reply import Reply
from tests.cases.rig import OAI, Bench, run_bench, settings
from tests.rig.connection import Recorded
from tests.rig.engine import Engine, expected
from tests.rig.processes import Process, run_command
from tests.rig.scripted import Scripted

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

LEASE_S = 3.0
DELAY_S = 0.1
WORDS = 50
PROMPT = f"marker:A words:{WORDS}"
OFF = {"chat_template_kwargs": {"enable_thinking": False}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    """With ``resume`` off, as the cases have it."""
    async with _installed("off") as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def resuming() -> AsyncIterator[Bench]:
    async with _installed("on") as found:
        yield found


def _installed(resume: str) -> Any:
    engine = Scripted("openai", kind="vllm", models=[OAI], engine=Engine("vllm", delay_s=DELAY_S))
    return run_bench(engine, more=settings(lease_seconds=str(LEASE_S), resume=resume))


async def _chat(bench: Bench, prompt: str = PROMPT, *, stream: bool = False) -> Reply:
    return await bench.chat("openai", OAI, prompt, stream=stream, **OFF)


async def _asked(bench: Bench, count: int = 1) -> Recorded:
    async with asyncio.timeout(10):
        while len(bench.oai.requests) < count:
            await asyncio.sleep(0.01)
    return bench.oai.requests[-1]


async def _at_work(bench: Bench) -> Process:
    """The worker that has the one job that runs."""
    async with redis.asyncio.Redis(port=bench.site.redis.port, decode_responses=True) as store:
        async with asyncio.timeout(5):
            while True:
                async for key in store.scan_iter(match="doublebuffer:{default}:job:*"):
                    state, name = await store.hmget(key, "st", "worker")
                    if state == "running":
                        return next(one for one in bench.site.workers if f"-{one.pid}-" in name)
                await asyncio.sleep(0.01)


async def _another(bench: Bench, stack: AsyncExitStack) -> None:
    """A worker in the place of each that has died."""
    bench.site.workers = [worker for worker in bench.site.workers if worker.exit_code is None]
    for _ in range(2 - len(bench.site.workers)):
        worker = await stack.enter_async_context(run_command("worker", environment=bench.site.environment))
        bench.site.workers.append(worker)
        await worker.has_said("Doublebuffer")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as found:
        yield found


async def _kill(worker: Process) -> None:
    worker.kill()
    await worker.ended()


async def test_a_whole_answer_comes_from_another_worker(bench: Bench, stack: AsyncExitStack) -> None:
    asked = asyncio.create_task(_chat(bench))
    await _asked(bench)
    await asyncio.sleep(1)
    await _kill(await _at_work(bench))
    reply = await asked
    assert reply.content == expected(PROMPT)
    assert reply.took_s < 25
    assert len(bench.oai.requests) <= 2
    await _another(bench, stack)


async def test_a_stream_that_cannot_go_on_ends_with_an_error(bench: Bench, stack: AsyncExitStack) -> None:
    began = time.perf_counter()
    asked = asyncio.create_task(_chat(bench, stream=True))
    await _asked(bench)
    await asyncio.sleep(1)
    await _kill(await _at_work(bench))
    reply = await asked
    assert time.perf_counter() - began < 15
    *chunks, last = reply.chunks()
    assert last["error"]["message"]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert text
    assert expected(PROMPT).startswith(text)
    assert reply.finishes() == []
    assert len(bench.oai.requests) == 1
    await _another(bench, stack)


async def test_a_stream_that_can_goes_on(resuming: Bench, stack: AsyncExitStack) -> None:
    """From the very word; the engine is asked once more, to go on."""
    asked = asyncio.create_task(_chat(resuming, stream=True))
    await _asked(resuming)
    await asyncio.sleep(1)
    await _kill(await _at_work(resuming))
    reply = await asked
    assert reply.content == expected(PROMPT)
    assert reply.finishes() == ["stop"]
    first, second = resuming.oai.requests
    assert "continue_final_message" not in first.json()
    said = second.json()["messages"][-1]
    assert second.json()["continue_final_message"] is True
    assert said["role"] == "assistant"
    assert expected(PROMPT).startswith(said["content"])
    await _another(resuming, stack)
    await resuming.check()


async def test_both_workers_die_and_one_comes_back(bench: Bench, stack: AsyncExitStack) -> None:
    prompts = [f"marker:{name} words:10" for name in "ABC"]
    for worker in bench.site.workers:
        worker.freeze()
    asked = [asyncio.create_task(_chat(bench, prompt)) for prompt in prompts]
    async with asyncio.timeout(5):
        while await bench.counted("doublebuffer_queue_depth") < len(prompts):
            await asyncio.sleep(0.02)
    for worker in bench.site.workers:
        await _kill(worker)
    await asyncio.sleep(1)
    await _another(bench, stack)
    assert [(await reply).content for reply in asked] == [expected(prompt) for prompt in prompts]


async def test_a_worker_that_dies_before_it_has_read_what_it_took(bench: Bench) -> None:
    """It pulled the job, and that was all."""
    for worker in bench.site.workers:
        worker.freeze()
    try:
        store = await open_store(bench.site.redis.url)
        lanes = Lanes(store)
        # Else it would go to one of them at once.
        await store.exchange([("DEL", f"{lanes.keys.base}standing")])
        asked = asyncio.create_task(_chat(bench, "marker:A words:3"))
        async with asyncio.timeout(5):
            while not (await lanes.pull("ghost", "fb1", [OAI], want=1, limits=Limits(slots=8), lease_s=LEASE_S)).jobs:
                await asyncio.sleep(0.02)
        await store.aclose()
    finally:
        for worker in bench.site.workers:
            worker.thaw()
    reply = await asked
    assert reply.content == expected("marker:A words:3")
    assert reply.took_s < 25
    assert len(bench.oai.requests) == 1


async def test_a_worker_that_only_slept_says_nothing_more(bench: Bench) -> None:
    """It wakes when its job has long been another's: the client hears one answer, and one end."""
    asked = asyncio.create_task(_chat(bench, stream=False))
    await _asked(bench)
    worker = await _at_work(bench)
    worker.freeze()
    try:
        await _asked(bench, 2)
    finally:
        worker.thaw()
    reply = await asked
    assert reply.content == expected(PROMPT)
    assert len(bench.oai.requests) == 2
    # What it had begun is broken off at the engine too.
    async with asyncio.timeout(10):
        while bench.oai.running:
            await asyncio.sleep(0.02)
