"""A store that is away, slow, frozen or crowded: who is refused, who is waited with, and what is left open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from buffer.lanes import Lanes
from buffer.store import Store, StoreUnavailable, open_store
from tests.buffer.jobs import INBOX, ids, job
from tests.rig.proxy import Proxy
from tests.rig.redis_server import RedisServer, run_redis

AT_ONCE_S = 0.5
"""Generous: a refusal that asks nobody takes less than a millisecond."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with run_redis() as found:
        yield found


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[Store]:
    found = await open_store(server.url)
    yield found
    await found.aclose()


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[Proxy]:
    async with Proxy(server.port) as found:
        yield found


async def _refused(lanes: Lanes) -> float:
    """Seconds until a new job is refused."""
    began = time.perf_counter()
    with pytest.raises(StoreUnavailable):
        await lanes.submit(job("new"))
    return time.perf_counter() - began


async def _clients(server: RedisServer) -> int:
    async with Redis(port=server.port) as client:
        return len(await client.client_list()) - 1


async def test_a_frozen_store_refuses_at_once_and_waits_for_what_is_under_way(
    store: Store, server: RedisServer
) -> None:
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    server.freeze()
    try:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(lanes.watch(INBOX, []))
            assert await _refused(lanes) < 3
            reason = store.away()
            assert reason is not None
            assert reason.text == "Redis does not answer in time."
            for _ in range(50):
                assert await _refused(lanes) < AT_ONCE_S
            server.thaw()
            assert (await waiting).inbox_there
    finally:
        server.thaw()
    assert (await lanes.submit(job("a"))).status == "new"


async def test_a_pull_that_a_freeze_fell_upon_is_answered_after_it(store: Store, server: RedisServer) -> None:
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    server.freeze()
    pulling = asyncio.create_task(ids(lanes))
    await _refused(lanes)
    server.thaw()
    assert await pulling == ["a"]


async def test_a_dead_wire_is_noticed_and_left_when_another_works(
    server: RedisServer, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """What had been sent before stays unanswered for ever: nobody waits for it longer than for a fresh connection."""
    store = await open_store(proxy.url)
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    reading = asyncio.create_task(store.read_streams({"x": "0-0"}, 30, 1))
    async with Redis(port=server.port) as client:
        while not (await client.info("clients"))["blocked_clients"]:
            await asyncio.sleep(0.005)
    proxy.strand()
    await _refused(lanes)
    assert (await lanes.watch(INBOX, [])).inbox_there
    async with asyncio.timeout(5):
        with pytest.raises(StoreUnavailable):
            await reading
    assert [record.getMessage().partition(" at ")[0] for record in caplog.records] == ["the store", "the store"]
    await store.aclose()


async def test_while_it_is_away_nobody_knocks_more_than_a_few_times_a_second(server: RedisServer, proxy: Proxy) -> None:
    store = await open_store(proxy.url)
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    server.stop()
    before = proxy.opened
    began = time.perf_counter()
    cpu = time.process_time()

    async def insist() -> None:
        while time.perf_counter() - began < 3:
            with pytest.raises(StoreUnavailable):
                await store.read_streams({"x": "0-0"}, 30, 1)

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(insist())
    assert proxy.opened - before < 20 + 15
    assert time.process_time() - cpu < 0.25 * (time.perf_counter() - began)
    await store.aclose()


async def test_twenty_outages_leave_no_connection_behind(server: RedisServer) -> None:
    store = await open_store(server.url)
    lanes = Lanes(store)
    most = 0
    for _ in range(20):
        await asyncio.gather(*(lanes.peek(["m"]) for _ in range(8)))
        most = max(most, await _clients(server))
        server.stop()
        results = await asyncio.gather(*(lanes.peek(["m"]) for _ in range(8)), return_exceptions=True)
        assert all(isinstance(result, StoreUnavailable) for result in results)
        server.start()
        assert not (await lanes.watch(INBOX, [])).inbox_there
    await asyncio.gather(*(lanes.peek(["m"]) for _ in range(8)))
    assert 1 <= await _clients(server) <= most <= 8
    await store.aclose()
    while await _clients(server):
        await asyncio.sleep(0.01)


async def test_commands_that_ran_out_of_time_leave_no_connection_behind(server: RedisServer) -> None:
    store = await open_store(server.url)
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    for i in range(3):
        server.freeze()
        results = await asyncio.gather(*(lanes.submit(job(f"{i}-{n}")) for n in range(40)), return_exceptions=True)
        assert all(isinstance(result, StoreUnavailable) for result in results)
        server.thaw()
        await lanes.watch(INBOX, [])
    assert await _clients(server) <= 32
    await asyncio.gather(*(lanes.peek(["m"]) for _ in range(100)))
    await store.aclose()
    while await _clients(server):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["client kill", "reset"])
async def test_cut_connections_are_opened_again_unseen(
    how: str, server: RedisServer, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(proxy.url)
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    async with Redis(port=server.port) as client:
        for i in range(20):
            if how == "reset":
                proxy.reset()
            else:
                await client.client_kill_filter(_type="normal")
            assert (await lanes.submit(job(f"j{i}"))).status == "new"
    assert caplog.records == []
    await store.aclose()


async def test_a_slow_wire_is_slow_and_no_outage(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    store = await open_store(proxy.url)
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    proxy.delay_s = 0.2
    for i in range(3):
        began = time.perf_counter()
        assert (await lanes.submit(job(f"j{i}"))).status == "new"
        assert time.perf_counter() - began < 1.2
    assert await ids(lanes, want=3) == ["j0", "j1", "j2"]
    assert caplog.records == []
    await store.aclose()


async def test_no_connection_more_is_a_refusal_and_no_outage(store: Store, server: RedisServer) -> None:
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    async with Redis(port=server.port) as client:
        await client.config_set("maxclients", 2)
        results = await asyncio.gather(*(lanes.peek(["m"]) for _ in range(8)), return_exceptions=True)
        # It says why, and closes: the second may come first.
        assert {str(one) for one in results if isinstance(one, Exception)} <= {
            "Redis has reached its limit of clients (maxclients).",
            "Redis cannot be reached.",
        }
        assert sum(not isinstance(one, Exception) for one in results) >= 1
        await lanes.peek(["m"])
        assert store.away() is None
        await client.config_set("maxclients", 100)
    await asyncio.gather(*(lanes.peek(["m"]) for _ in range(8)))


async def test_idle_connections_that_the_server_closed_are_opened_again(store: Store, server: RedisServer) -> None:
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    async with Redis(port=server.port) as client:
        await client.config_set("timeout", 1)
        async with asyncio.timeout(10):
            while len(await client.client_list()) > 1:
                await asyncio.sleep(0.05)
    assert (await lanes.submit(job("a"))).status == "new"


async def test_a_store_that_loads_its_data_says_so() -> None:
    with run_redis("--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024") as server:
        store = await open_store(server.url)
        await asyncio.gather(*(store.redis.set(f"k{i}", "x" * 200) for i in range(2000)))
        await store.redis.save()
        server.stop()
        server.start(ready=False)
        reasons = set()
        async with asyncio.timeout(20):
            while True:
                try:
                    await store.ping()
                    break
                except StoreUnavailable as error:
                    reasons.add((str(error), error.soon))
                    await asyncio.sleep(0.01)
        assert ("Redis is loading its data.", True) in reasons
        await store.aclose()
