"""A hundred clients with one question at once, before two gateways and two workers as processes: one job, and a whole
answer for each, whoever leaves and whatever is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.acceptance.site import Site, backend, run_site
from tests.cache.zipf import answer_text
from tests.rig.connection import Recorded
from tests.rig.processes import Process, run_command
from tests.rig.script import DONE, Piece, Sleep, Status, finish, role, usage
from tests.rig.scripted import Scripted

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

MODEL = "m-oai"
COUNT = 100
TEXT = "".join(f"w{number} " for number in range(20))


async def counting(request: Recorded) -> AsyncIterator[Piece]:
    """Says its words slowly, from where the conversation's last message ends."""
    last = request.json()["messages"][-1]
    said = last["content"] if last["role"] == "assistant" else ""
    words = re.findall(r" ?\S+ ?", TEXT.removeprefix(said))
    yield role()
    for word in words:
        yield Sleep(0.08)
        yield word
    yield finish("stop")
    yield usage(7, len(words))
    yield DONE


@dataclass
class Crowd:
    site: Site
    gateways: list[Process]
    engine: Scripted
    clients: list[httpx.AsyncClient]

    async def ask(self, place: int, question: str) -> str:
        """One of them asks in its own way, and gives its answer's words."""
        ollama, stream = place // 2 % 2 == 1, place // 4 % 2 == 0
        turns = [{"role": "user", "content": question}]
        body: dict[str, Any] = {"model": MODEL, "messages": turns, "stream": stream}
        body |= {"options": {"temperature": 0}} if ollama else {"temperature": 0}
        path = "/api/chat" if ollama else "/v1/chat/completions"
        reply = await self.clients[place % 2].post(path, json=body)
        assert reply.status_code == 200, reply.text
        return answer_text(reply, ollama=ollama, stream=stream)

    async def waits(self, count: int) -> str:
        """Waits until so many clients wait for one answer; the job's id."""
        async with Redis(port=self.site.redis.port, decode_responses=True) as client, asyncio.timeout(20):
            while True:
                async for key in client.scan_iter(match="*:flight:*", count=1000):
                    flight = {str(name): str(value) for name, value in (await client.hgetall(key)).items()}
                    if sum(name.startswith("client:") for name in flight) == count:
                        return flight["job"]
                await asyncio.sleep(0.02)

    async def worker_of(self, id: str) -> Process:
        async with Redis(port=self.site.redis.port, decode_responses=True) as client:
            name = str(await client.hget(f"doublebuffer:{{default}}:job:{id}", "worker"))
        return next(one for one in self.site.workers if str(one.pid) in re.split("[:-]", name))


@contextlib.asynccontextmanager
async def crowd(**more: str) -> AsyncIterator[Crowd]:
    """``more``: settings by their names without the prefix."""
    async with contextlib.AsyncExitStack() as stack:
        engine = await stack.enter_async_context(Scripted("openai", kind="vllm", models=[MODEL], script=counting))
        settings = {"DOUBLEBUFFER_CACHE": "on", "DOUBLEBUFFER_LEASE_SECONDS": "3", "DOUBLEBUFFER_WINDOW_MS": "0"}
        settings["DOUBLEBUFFER_MAX_ATTEMPTS"] = "1"
        settings |= {f"DOUBLEBUFFER_{name.upper()}": value for name, value in more.items()}
        site = await stack.enter_async_context(run_site([backend("e", "vllm", engine.url)], settings=settings))
        other = await stack.enter_async_context(run_command("gateway", "--port", "0", environment=site.environment))
        await other.is_healthy("/health/ready")
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, trust_env=False, timeout=60, limits=httpx.Limits(max_connections=COUNT))
            )
            for url in (site.url, other.url)
        ]
        yield Crowd(site, [site.gateway, other], engine, clients)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Crowd]:
    async with crowd() as found:
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def fresh(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    if "site" not in request.fixturenames:
        yield
        return
    found: Crowd = request.getfixturevalue("site")
    found.engine.requests.clear()
    yield
    assert await found.site.leftovers() == []


async def test_one_job_and_a_hundred_answers(site: Crowd) -> None:
    told = await asyncio.gather(*(site.ask(place, "all") for place in range(COUNT)))
    assert told == [TEXT] * COUNT
    assert len(site.engine.requests) == 1
    kept = await asyncio.gather(*(site.ask(place, "all") for place in range(8)))
    assert kept == [TEXT] * 8
    assert len(site.engine.requests) == 1


@pytest.mark.parametrize("leaves", [0, 57])
async def test_one_of_them_leaves(site: Crowd, leaves: int) -> None:
    """``leaves``: the first of all, or another."""
    asked = [asyncio.create_task(site.ask(0, f"{leaves} leaves"))]
    await site.waits(1)
    asked += [asyncio.create_task(site.ask(place, f"{leaves} leaves")) for place in range(1, COUNT)]
    await site.waits(COUNT)
    asked[leaves].cancel()
    await site.waits(COUNT - 1)
    told = [await one for place, one in enumerate(asked) if place != leaves]
    assert told == [TEXT] * (COUNT - 1)
    assert len(site.engine.requests) == 1
    assert site.engine.requests[0].peer_closed_at is None


async def test_all_of_them_leave(site: Crowd) -> None:
    asked = [asyncio.create_task(site.ask(place, "all leave")) for place in range(20)]
    await site.waits(20)
    request = await site.engine.received()
    for one in asked:
        one.cancel()
    async with asyncio.timeout(10):
        while request.peer_closed_at is None:
            await asyncio.sleep(0.01)


async def test_what_the_engine_fails_before_its_first_word_is_asked_once_more_for_all_who_joined(site: Crowd) -> None:
    hold = asyncio.Event()

    async def fails(_: Recorded) -> AsyncIterator[Piece]:
        await hold.wait()
        yield Status(500, {"error": {"message": "no luck"}})

    site.engine.once = [fails]
    first = asyncio.create_task(site.ask(0, "fails"))
    await site.waits(1)
    others = [asyncio.create_task(site.ask(place, "fails")) for place in range(1, 30)]
    await site.waits(30)
    hold.set()
    with pytest.raises(AssertionError, match="no luck"):
        await first
    assert [await one for one in others] == [TEXT] * 29
    assert len(site.engine.requests) == 2


@pytest.mark.slow
async def test_their_worker_is_killed_and_then_the_gateway_of_the_first() -> None:
    async with crowd() as site:
        first = asyncio.create_task(site.ask(0, "deaths"))
        await site.waits(1)
        others = [asyncio.create_task(site.ask(place, "deaths")) for place in range(1, 40, 2)]
        id = await site.waits(1 + len(others))
        await site.engine.received()
        await asyncio.sleep(0.4)  # a few words
        os.kill((await site.worker_of(id)).pid, 9)
        os.kill(site.gateways[0].pid, 9)
        with pytest.raises(httpx.HTTPError):
            await first
        assert [await one for one in others] == [TEXT] * len(others)
        last = json.loads(site.engine.requests[-1].body)["messages"][-1]
        assert len(site.engine.requests) == 2
        assert last["role"] == "assistant", "it was gone on with, not begun anew"


@pytest.mark.slow
async def test_the_gateway_of_the_first_is_stopped() -> None:
    """What nobody else waits for stops with it; what others do goes on."""
    async with crowd(drain_seconds="0") as site:
        both = [asyncio.create_task(site.ask(0, "both"))]
        await site.waits(1)
        both += [asyncio.create_task(site.ask(place, "both")) for place in (1, 3)]
        await site.waits(3)
        alone = asyncio.create_task(site.ask(0, "alone"))
        await site.engine.received(2)
        os.kill(site.gateways[0].pid, signal.SIGTERM)
        with pytest.raises((httpx.HTTPError, AssertionError)):
            await alone
        assert [await one for one in both[1:]] == [TEXT] * 2
        shared, single = site.engine.requests
        assert single.peer_closed_at is not None
        assert shared.peer_closed_at is None or shared.answered_at is not None
        with pytest.raises((httpx.HTTPError, AssertionError)):
            await both[0]
