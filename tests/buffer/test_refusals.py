"""A server that answers, but refuses: full, demoted, cut off from its replicas, busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from buffer.inbox import Inbox
from buffer.job import End
from buffer.lanes import Lanes
from buffer.load import WorkerPresence, alive_workers, publish_worker
from buffer.records import Piece
from buffer.replies import ReplyWriter
from buffer.store import StoreUnavailable, open_store
from tests.buffer.jobs import INBOX, LEASE_S, clocked, ids, job, pull, running, words
from tests.buffer.running import answer, beside
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


async def test_what_is_under_way_ends_though_memory_is_full(lanes: Lanes) -> None:
    """Only so is memory freed again."""
    inbox = Inbox(lanes, "gate", watch_s=0.2)
    await inbox.create()
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        followers = [(await inbox.submit(job(id)))[1] for id in "abc"]
        first, second = (await pull(lanes, want=2)).jobs
        await lanes.renew("w", [], LEASE_S)
        for granted in (first, second):
            writer.attach(granted)
            writer.write(granted.id, words("half "))
        await lanes.store.redis.config_set("maxmemory", "1")
        with pytest.raises(StoreUnavailable) as refused:
            await lanes.submit(job("new", inbox=inbox.name))
        assert str(refused.value) == "Redis is out of memory (maxmemory)."
        with pytest.raises(StoreUnavailable):
            await lanes.store.takes_writes(lanes.keys.base)
        assert lanes.store.away() is None

        writer.write(first.id, words("and half"))
        assert await lanes.prefilled([Piece(first.id, first.fence, 0)]) == 1
        assert await writer.finish(first.id, End("done")) == "ok"
        assert followers[0] is not None
        assert await answer(followers[0]) == ("half and half", End("done"))
        assert await lanes.cancel(second.id) == "running"
        assert await lanes.signal(second.id, "pause")
        _, controls = await lanes.controls("w", "0-0", 1)
        assert [control.kind for control in controls] == ["cancel", "pause"]
        assert await writer.finish(second.id, End("cancelled")) == "ok"
        await publish_worker(lanes.store, lanes.keys, WorkerPresence(id="w", started_at=0.0), 15)
        assert await alive_workers(lanes.store, lanes.keys) == 1
        # What waited all along begins.
        assert await ids(lanes) == ["c"]

        await lanes.store.redis.config_set("maxmemory", "0")
        await lanes.store.takes_writes(lanes.keys.base)
        assert (await lanes.submit(job("new", inbox=inbox.name))).status == "new"
