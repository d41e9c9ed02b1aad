"""A Redis that fails under chats: what is under way waits and goes on, what is new is refused at once and told why."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
import pytest_asyncio
import redis.asyncio

from tests.acceptance.crowd import Answer, Ask, ask, asks, faults
from tests.acceptance.site import Site, backends_of, cpu_s, run_engines, run_site
from tests.rig.redis_server import AOF, RedisServer, run_redis

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

KINDS = ("vllm", "ollama")
DELAY_S = 0.1
WORDS = 40
MOST_LINES = 10
MOST_CPU = 0.25


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    """Its Redis keeps a log of all that it is told."""
    with run_redis(*AOF) as server:
        async with (
            run_engines(delay_s=DELAY_S, kinds=KINDS) as engines,
            run_site(backends_of(engines), settings={"DOUBLEBUFFER_MAX_IN_FLIGHT": "8"}, store=server) as found,
        ):
            yield found


@pytest_asyncio.fixture(loop_scope="module")
async def client(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as found:
        await _ready(found)
        yield found


def _new() -> Ask:
    return asks(1, ["m-vllm"], seed=99, words=(1, 1))[0]


async def _ready(client: httpx.AsyncClient, *, within_s: float = 15.0) -> None:
    async with asyncio.timeout(within_s):
        while (await client.get("/health/ready")).status_code != 200:
            await asyncio.sleep(0.05)


async def _refused(client: httpx.AsyncClient) -> float:
    """A new chat is refused. Seconds that this took."""
    answer = await ask(client, _new())
    assert (answer.status, answer.error) == (503, "The queue cannot be reached at the moment."), answer
    assert int(answer.headers["retry-after"]) >= 1
    return answer.took_s


async def _under(
    site: Site, client: httpx.AsyncClient, fault: Callable[[], Awaitable[None]], *, chats: int = 8
) -> Counter[str]:
    """Chats that are in the middle of their answers when ``fault`` begins, and what was wrong with them."""
    what = asks(chats, [f"m-{kind}" for kind in KINDS], seed=int(time.time()), words=(WORDS, WORDS))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(ask(client, one)) for one in what]
        await site.is_at(chats)
        await fault()
        answers: list[Answer] = [await task for task in running]
    return faults(what, answers)


@pytest.mark.parametrize("frozen_s", [3.0, pytest.param(10.0, marks=pytest.mark.slow)])
async def test_frozen(site: Site, client: httpx.AsyncClient, frozen_s: float) -> None:
    server: RedisServer = site.redis

    async def fault() -> None:
        server.freeze()
        try:
            began = time.perf_counter()
            assert await _refused(client) < 2.5
            for _ in range(10):
                assert await _refused(client) < 0.5
            assert await _reason(client) == "Redis does not answer in time."
            await asyncio.sleep(frozen_s - (time.perf_counter() - began))
        finally:
            server.thaw()
        await _ready(client)

    assert await _under(site, client, fault) == {}
    assert await site.leftovers() == []


async def _reason(client: httpx.AsyncClient) -> str:
    answer = await client.get("/health/ready")
    assert answer.status_code == 503
    assert (await client.get("/health")).status_code == 200
    return str(answer.json()["reason"])


@pytest.mark.parametrize("kept", [True, False], ids=["with its data", "without its data"])
async def test_restarted(site: Site, client: httpx.AsyncClient, kept: bool) -> None:
    server: RedisServer = site.redis

    async def fault() -> None:
        server.stop()
        for _ in range(3):
            assert await _refused(client) < 0.5
        assert await _reason(client) == "Redis cannot be reached."
        if not kept:
            for file in server.folder.rglob("*.aof*"):
                if file.is_file():
                    file.unlink()
        server.start()
        await _ready(client)

    assert await _under(site, client, fault) == {}
    assert await site.leftovers() == []


@pytest.mark.slow
async def test_away_for_long_it_costs_next_to_nothing(site: Site, client: httpx.AsyncClient) -> None:
    server: RedisServer = site.redis
    everybody = [site.gateway, *site.workers]
    logs = [len(process.log) for process in everybody]
    used = [cpu_s(process.pid) for process in everybody]
    server.stop()
    await asyncio.sleep(10)
    used = [cpu_s(process.pid) - before for process, before in zip(everybody, used, strict=True)]
    lines = [process.log[before:].splitlines() for process, before in zip(everybody, logs, strict=True)]
    server.start()
    await _ready(client)
    assert max(used) < MOST_CPU * 10, used
    assert max(map(len, lines)) <= MOST_LINES, lines
    assert await _under(site, client, _nothing) == {}


async def _nothing() -> None:
    pass


async def test_full(site: Site, client: httpx.AsyncClient) -> None:
    async with redis.asyncio.Redis(port=site.redis.port) as direct:

        async def fault() -> None:
            await direct.config_set("maxmemory", "1")
            assert await _refused(client) < 0.5
            assert await _reason(client) == "Redis is out of memory (maxmemory)."

        try:
            assert await _under(site, client, fault) == {}
        finally:
            await direct.config_set("maxmemory", "0")
    await _ready(client)
    assert await site.leftovers() == []


async def test_read_only(site: Site, client: httpx.AsyncClient) -> None:
    async with redis.asyncio.Redis(port=site.redis.port) as direct:

        async def fault() -> None:
            await direct.replicaof("127.0.0.1", 1)
            assert await _refused(client) < 0.5
            assert await _reason(client) == "Redis is a read-only replica."
            await direct.replicaof("NO", "ONE")

        assert await _under(site, client, fault) == {}
    await _ready(client)
    assert await site.leftovers() == []


async def test_cut_off(site: Site, client: httpx.AsyncClient) -> None:
    """Every connection, again and again: nobody notices, and none is left behind."""
    async with redis.asyncio.Redis(port=site.redis.port) as direct:

        async def fault() -> None:
            for _ in range(10):
                await direct.client_kill_filter(_type="normal")
                await asyncio.sleep(0.1)
                answer = await ask(client, _new())
                assert (answer.status, answer.ended) == (200, True)

        await _under(site, client, _nothing)
        before = len(await direct.client_list())
        assert await _under(site, client, fault) == {}
        assert len(await direct.client_list()) <= before + 5
    assert await site.leftovers() == []
