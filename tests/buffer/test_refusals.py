"""A server that answers, but refuses: full, demoted, cut off from its replicas, busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from buffer.lanes import Lanes
from buffer.store import StoreUnavailable, open_store
from tests.buffer.jobs import INBOX, LEASE_S, clocked, ids, job, running
from tests.rig.redis_server import bundled_binary, redis_binary, run_redis


@pytest.fixture(params=["redis", "oldest"])
async def lanes(request: pytest.FixtureRequest) -> AsyncIterator[Lanes]:
    """On a server of the test's own."""
    with run_redis(binary=(request.param == "oldest" and bundled_binary()) or redis_binary()) as server:
        store = await open_store(server.url)
        yield Lanes(store)
        await store.aclose()


async def test_a_full_store_still_lets_jobs_start_and_takes_back_those_of_the_dead(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    await running(lanes, "a")
    await lanes.submit(job("b"))
    await lanes.store.redis.config_set("maxmemory", "1")
    assert await ids(lanes) == ["b"]
    for _ in range(5):
        clock.forward(LEASE_S / 4)
        await lanes.reap(LEASE_S)
    assert (await lanes.place("a")).state == "held"


async def test_a_server_that_is_no_longer_the_first_is_away_for_those_who_wait_at_it(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    key = lanes.keys.inbox(INBOX)
    ((_, ((first, _),)),) = await lanes.store.read_streams({key: "0-0"}, 1, 1)
    reads = [lanes.store.read_streams({key: first}, 30, 1, trim=trim) for trim in (None, {key: first})]
    tasks = [asyncio.create_task(read) for read in reads]
    async with asyncio.timeout(5):
        while (await lanes.store.redis.info("clients"))["blocked_clients"] < 2:
            await asyncio.sleep(0.005)
        await lanes.store.redis.replicaof("127.0.0.1", 1)
        for task in tasks:
            with pytest.raises(StoreUnavailable):
                await task
    with pytest.raises(StoreUnavailable):
        await ids(lanes)


async def test_a_server_without_enough_replicas_is_away(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.store.redis.config_set("min-replicas-to-write", 1)
    with pytest.raises(StoreUnavailable):
        await lanes.submit(job("a"))


async def test_a_server_that_runs_somebody_s_endless_script_is_away(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.store.redis.config_set("lua-time-limit", 1)
    other = await open_store(f"redis://127.0.0.1:{lanes.store.redis.get_connection_kwargs()['port']}")
    endless = asyncio.create_task(other.redis.eval("while true do end", 0))
    async with asyncio.timeout(5):
        while True:
            try:
                await lanes.peek(["m"])
            except StoreUnavailable:
                break
    await lanes.store.redis.execute_command("SCRIPT", "KILL")
    await asyncio.wait([endless])
    assert endless.exception() is not None
    await other.aclose()
