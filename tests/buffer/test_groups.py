"""Several servers as one store: through a Sentinel's failover, and over the nodes of a Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from buffer.job import End
from buffer.lanes import Lanes
from buffer.store import Store, StoreUnavailable, open_store
from tests.buffer.jobs import INBOX, ids, job, pull
from tests.rig.redis_groups import Cluster, SentinelGroup, ask, run_cluster, run_sentinels, until
from tests.rig.redis_server import bundled_binary, redis_binary

AWAY_S = 15.0


def _binary(which: str) -> str:
    return (which == "oldest" and bundled_binary()) or redis_binary()


@pytest.fixture
def sentinels(request: pytest.FixtureRequest) -> Iterator[SentinelGroup]:
    with run_sentinels(_binary(getattr(request, "param", "newest"))) as found:
        yield found


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with run_cluster() as found:
        yield found


@pytest.fixture
async def cluster(nodes: Cluster) -> AsyncIterator[Store]:
    store = await open_store(nodes.url)
    yield store
    for node in nodes.nodes:
        ask(node.port, "FLUSHALL")
        ask(node.port, "SCRIPT", "FLUSH")
    await store.aclose()


async def _again(step: Any) -> Any:
    """What ``step`` gives, once the store is there again."""
    async with asyncio.timeout(AWAY_S):
        while True:
            try:
                return await step()
            except StoreUnavailable:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("sentinels", "how"), [("newest", "failover"), ("newest", "death"), ("oldest", "death")], indirect=["sentinels"]
)
async def test_a_failover_costs_a_pause(sentinels: SentinelGroup, how: str) -> None:
    store = await open_store(sentinels.url)
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    (granted,) = (await pull(lanes)).jobs
    until(lambda: ask(sentinels.servers[0].port, "WAIT", 1, 100) == 1)
    reading = asyncio.create_task(store.read_streams({"x": "0-0"}, 30, 1))
    before = sentinels.port
    if how == "death":
        sentinels.kill_master()
    else:
        await asyncio.to_thread(sentinels.fail_over)
    async with asyncio.timeout(AWAY_S):
        while not reading.done():
            assert (await _again(lambda: lanes.watch(INBOX, ["a"]))).states == [("running", granted.fence)]
            await asyncio.sleep(0.05)
    with pytest.raises(StoreUnavailable):
        await reading
    assert sentinels.port != before
    assert (await _again(lambda: lanes.submit(job("b")))).status in ("new", "known")
    assert await _again(lambda: lanes.settle("a", granted.fence, 1, End("done"))) == "ok"
    assert await ids(lanes) == ["b"]
    await store.aclose()


async def test_without_a_master_the_reason_is_told(sentinels: SentinelGroup) -> None:
    store = await open_store(sentinels.url)
    await store.ping()
    for server in sentinels.servers:
        server.stop()
    reasons = set()
    async with asyncio.timeout(AWAY_S):
        while "Sentinel knows no master at the moment." not in reasons:
            try:
                await Lanes(store).watch(INBOX, [])
            except StoreUnavailable as error:
                reasons.add(str(error))
    await store.aclose()


async def test_a_demoted_master_is_left(sentinels: SentinelGroup) -> None:
    """Sentinel cuts the connections to it; where it cannot, the first refused write shows it."""
    store = await open_store(sentinels.url)
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    old = sentinels.master
    other = next(server for server in sentinels.servers if server is not old)
    ask(other.port, "REPLICAOF", "NO", "ONE")
    ask(old.port, "REPLICAOF", "127.0.0.1", other.port)
    with pytest.raises(StoreUnavailable) as refused:
        await lanes.submit(job("a"))
    assert str(refused.value) == "Redis is a read-only replica."
    await store.aclose()


# --- Cluster


def _two_pools(nodes: Cluster) -> tuple[str, str]:
    """Names of pools that live on two nodes."""
    homes: dict[int, str] = {}
    for i in range(100):
        homes.setdefault(nodes.owner(key_slot(f"doublebuffer:{{p{i}}}:".encode())).port, f"p{i}")
        if len(homes) == 2:
            break
    one, two = homes.values()
    return one, two


async def test_each_pool_lives_on_one_node(cluster: Store, nodes: Cluster) -> None:
    for name in _two_pools(nodes):
        lanes = Lanes(cluster, name)
        await lanes.create_inbox(INBOX)
        await lanes.submit(job("a"))
        (granted,) = (await pull(lanes)).jobs
        results = await cluster.exchange(
            [("XADD", lanes.keys.inbox(INBOX), "NOMKSTREAM", "*", "k", "x"), lanes.append_call([])]
        )
        assert results[1] == []
        assert await lanes.settle("a", granted.fence, 1, End("done")) == "ok"
        ((_, entries),) = await cluster.read_streams({lanes.keys.inbox(INBOX): "0-0"}, 1, 10)
        assert [fields.get(b"k") for _, fields in entries] == [b"open", b"start", b"x", b"done"]
        home = nodes.owner(key_slot(lanes.keys.base.encode()))
        for node in nodes.nodes:
            found = ask(node.port, "DBSIZE")
            assert (found > 0) == (node.port == home.port)
        assert [one for one in await lanes.leftovers() if one.ttl_s == -1 and "none" in one.key] == []
        ask(home.port, "FLUSHALL")


async def test_commands_for_two_nodes_come_back_in_their_order(cluster: Store, nodes: Cluster) -> None:
    one, two = (f"doublebuffer:{{{name}}}:x" for name in _two_pools(nodes))
    await cluster.exchange([("SET", one, 1), ("SET", two, 2)])
    assert await cluster.exchange([("GET", two), ("GET", one), ("INCR", one), ("GET", two)]) == [b"2", b"1", 2, b"2"]


async def test_a_slot_that_has_moved_is_found(cluster: Store, nodes: Cluster) -> None:
    lanes = Lanes(cluster)
    await lanes.create_inbox(INBOX)
    assert await ids(lanes) == []
    slot = key_slot(lanes.keys.base.encode())
    old = nodes.owner(slot)
    new = next(node for node in nodes.nodes if node is not old)
    reading = asyncio.create_task(cluster.read_streams({lanes.keys.bell: "0-0"}, 30, 1))
    _begin_to_move(nodes, slot, old.port, new.port)
    with pytest.raises(StoreUnavailable) as refused:
        await lanes.submit(job("a"))
    assert str(refused.value) == "A slot of the Redis Cluster is being moved."
    _move(nodes, slot, old.port, new.port)
    assert (await _again(lambda: lanes.submit(job("a")))).status == "new"
    assert await ids(lanes) == ["a"]
    async with asyncio.timeout(5):
        with pytest.raises(StoreUnavailable):
            await reading
    await lanes.ring_bell()
    assert await cluster.read_streams({lanes.keys.bell: "0-0"}, 5, 1)
    _begin_to_move(nodes, slot, new.port, old.port)
    _move(nodes, slot, new.port, old.port)


def _begin_to_move(nodes: Cluster, slot: int, old: int, new: int) -> None:
    ask(new, "CLUSTER", "SETSLOT", slot, "IMPORTING", ask(old, "CLUSTER", "MYID"))
    ask(old, "CLUSTER", "SETSLOT", slot, "MIGRATING", ask(new, "CLUSTER", "MYID"))


def _move(nodes: Cluster, slot: int, old: int, new: int) -> None:
    while keys := ask(old, "CLUSTER", "GETKEYSINSLOT", slot, 100):
        ask(old, "MIGRATE", "127.0.0.1", new, "", 0, 5000, "KEYS", *keys)
    name = ask(new, "CLUSTER", "MYID")
    for port in (new, old, *(node.port for node in nodes.nodes)):
        ask(port, "CLUSTER", "SETSLOT", slot, "NODE", name)


@pytest.mark.parametrize("which", ["newest", "oldest"])
async def test_a_node_that_is_down_takes_only_its_own_pools_away(which: str) -> None:
    with run_cluster(binary=_binary(which)) as nodes:
        store = await open_store(nodes.url)
        one, two = (Lanes(store, name) for name in _two_pools(nodes))
        for lanes in (one, two):
            await lanes.create_inbox(INBOX)
        home = nodes.owner(key_slot(one.keys.base.encode()))
        home.stop()
        with pytest.raises(StoreUnavailable):
            await one.submit(job("a"))
        assert (await two.submit(job("b"))).status == "new"
        assert store.away(one.keys.base) is not None
        assert store.away(two.keys.base) is None
        home.start()
        # Without its data.
        assert not (await _again(lambda: one.watch(INBOX, []))).inbox_there
        await store.aclose()


async def test_the_replica_of_a_dead_node_is_found() -> None:
    with run_cluster(replicas=True) as nodes:
        store = await open_store(nodes.url)
        lanes = Lanes(store)
        await lanes.create_inbox(INBOX)
        await lanes.submit(job("a"))
        slot = key_slot(lanes.keys.base.encode())
        home = nodes.owner(slot)
        async with Redis(port=home.port) as client:
            assert await client.execute_command("WAIT", 1, 1000) == 1
        home.stop()
        assert await _again(lambda: ids(lanes)) == ["a"]
        assert nodes.owner(slot) in nodes.replicas
        await store.aclose()


async def test_a_plain_server_is_no_cluster(redis_url: str) -> None:
    store = await open_store(redis_url.replace("redis:", "redis+cluster:").removesuffix("/0"))
    with pytest.raises(StoreUnavailable) as refused:
        await store.ping()
    assert "Cluster" in str(refused.value)
    await store.aclose()
