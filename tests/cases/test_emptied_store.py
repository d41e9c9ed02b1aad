"""A Redis that is emptied, or comes back from a restart: work goes on by itself, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
import redis.asyncio

from tests.acceptance.site import cpu_s
from tests.cases.reply import Reply
from tests.cases.rig import OAI, Bench, run_bench, settings
from tests.rig.engine import Engine, expected
from tests.rig.redis_server import AOF, RedisServer, run_redis
from tests.rig.scripted import Scripted

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

DELAY_S = 0.1
LONG = "marker:A words:40"
"""Some four seconds."""
SHORT = ("marker:B words:3", "marker:C words:3")
WATCHED_S = 10.0
MOST_LINES = 10
MOST_CPU = 0.25


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    """One job at a time."""
    engine = Scripted("openai", kind="vllm", models=[OAI], engine=Engine("vllm", delay_s=DELAY_S))
    with run_redis(*AOF) as server:
        async with run_bench(engine, more=settings(max_in_flight="1"), store=server) as found:
            yield found


@pytest_asyncio.fixture(loop_scope="module")
async def store(bench: Bench) -> AsyncIterator[redis.asyncio.Redis]:
    """The Redis itself, past us."""
    async with redis.asyncio.Redis(port=bench.site.redis.port) as found:
        yield found


async def _chat(bench: Bench, prompt: str) -> Reply:
    return await bench.chat("openai", OAI, prompt, stream=True, chat_template_kwargs={"enable_thinking": False})


async def _answered(bench: Bench) -> None:
    reply = await bench.chat("ollama", OAI, "marker:new words:1", think=False)
    assert reply.content == expected("marker:new words:1")
    assert reply.took_s < 5


async def _through(bench: Bench, fault: Callable[[], Any]) -> None:
    """A is being answered and B and C wait when it strikes; each gets its whole answer."""
    async with asyncio.TaskGroup() as group:
        replies = [group.create_task(_chat(bench, LONG))]
        async with asyncio.timeout(10):
            while not bench.oai.requests:
                await asyncio.sleep(0.01)
        replies += [group.create_task(_chat(bench, prompt)) for prompt in SHORT]
        async with asyncio.timeout(10):
            while await bench.counted("doublebuffer_queue_depth") < len(SHORT):
                await asyncio.sleep(0.01)
        await fault()
    for prompt, reply in zip((LONG, *SHORT), replies, strict=True):
        assert reply.result().content == expected(prompt)
        assert reply.result().finishes() == ["stop"]


def _asked(bench: Bench, marker: str) -> int:
    """How often the engine was asked for it."""
    return sum(f"marker:{marker}" in str(request.json()["messages"]) for request in bench.oai.requests)


async def test_an_idle_store_that_is_emptied(bench: Bench, store: redis.asyncio.Redis) -> None:
    await store.flushall()
    await asyncio.sleep(2)
    await _answered(bench)


async def test_an_idle_store_that_is_emptied_and_asked_at_once(bench: Bench, store: redis.asyncio.Redis) -> None:
    await store.flushall()
    await _answered(bench)


async def test_a_store_that_is_emptied_under_work(bench: Bench, store: redis.asyncio.Redis) -> None:
    await _through(bench, store.flushall)
    assert [_asked(bench, marker) for marker in "ABC"] == [1, 1, 1]
    await _answered(bench)


async def test_streams_that_are_taken_away(bench: Bench, store: redis.asyncio.Redis) -> None:
    async def destroy() -> None:
        async for key in store.scan_iter(_type="stream"):
            await store.delete(key)

    await destroy()
    await _answered(bench)
    await _through(bench, destroy)
    await _answered(bench)


async def test_scripts_that_are_forgotten(bench: Bench, store: redis.asyncio.Redis) -> None:
    await store.script_flush()
    await _answered(bench)
    await _through(bench, store.script_flush)
    assert [_asked(bench, marker) for marker in "ABC"] == [1, 1, 1]


@pytest.mark.parametrize("what", ["job:*", "reply:*", "inbox:*", "lease", "load:*", "wait:*", "due:*", "turn:*"])
async def test_keys_that_are_taken_away(bench: Bench, store: redis.asyncio.Redis, what: str) -> None:
    async def take_away() -> None:
        async for key in store.scan_iter(match=f"doublebuffer:{{default}}:{what}"):
            await store.delete(key)

    await _through(bench, take_away)
    await _answered(bench)


async def test_a_restart_that_loses_nothing(bench: Bench) -> None:
    server: RedisServer = bench.site.redis

    async def restart() -> None:
        server.stop()
        await asyncio.sleep(3)
        server.start()

    await _through(bench, restart)
    assert [_asked(bench, marker) for marker in "ABC"] == [1, 1, 1]
    await _answered(bench)


@pytest.mark.slow
async def test_afterwards_nobody_is_busy(bench: Bench, store: redis.asyncio.Redis) -> None:
    everybody = [bench.site.gateway, *bench.site.workers]
    logs = [len(process.log) for process in everybody]
    used = [cpu_s(process.pid) for process in everybody]
    await store.flushall()
    await asyncio.sleep(WATCHED_S)
    for process, log, before in zip(everybody, logs, used, strict=True):
        assert len(process.log[log:].splitlines()) <= MOST_LINES
        assert cpu_s(process.pid) - before < MOST_CPU * WATCHED_S
    await _answered(bench)
