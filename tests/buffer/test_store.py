"""Opening a store, losing it, and finding it again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from buffer.cluster import ClusterStore
from buffer.inbox import Inbox
from buffer.job import End
from buffer.lanes import Lanes
from buffer.replies import ReplyWriter
from buffer.scripting import SCRIPTS, script
from buffer.store import Store, StoreUnavailable, open_store
from tests.buffer.jobs import INBOX, at_home, ids, job, pull, words
from tests.buffer.running import answer, beside, until
from tests.rig.redis_server import RedisServer, run_redis


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that the test may stop."""
    with run_redis() as server:
        yield server


async def test_scripts_that_the_store_forgot_are_loaded_again(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    await lanes.store.redis.script_flush()
    assert await ids(lanes) == ["a"]
    await lanes.store.redis.script_flush()
    place = (await lanes.place("a")).fence
    results = await lanes.store.exchange(
        [("PING",), lanes.settle_call("a", place, 1, End("done")), ("EXISTS", lanes.keys.job("a"))]
    )
    assert results[1:] == [b"ok", 1]


def test_every_script_has_its_pieces_and_no_comment() -> None:
    for name in SCRIPTS:
        source = script(name).source
        assert "KEYS[1]" in source
        assert "--" not in source


async def test_a_wrong_command_is_an_error_in_its_place(store: Store) -> None:
    results = await store.exchange([("PING",), ("INCR", "x", "y"), ("PING",)])
    assert isinstance(results[1], Exception)
    assert not isinstance(results[2], Exception)


async def test_readers_get_what_is_there_in_order(store: Store) -> None:
    keys = [f"{store.prefix}:{{default}}:inbox:{i}" for i in range(2)]
    assert await store.read_streams(dict.fromkeys(keys, "0-0"), 0.01, 10) == []
    for i in range(3):
        await store.redis.xadd(keys[1], {"i": i})
    ((key, entries),) = await store.read_streams(dict.fromkeys(keys, "0-0"), 1, 2)
    assert (key, [fields[b"i"] for _, fields in entries]) == (keys[1], [b"0", b"1"])
    last = entries[-1][0]
    ((_, rest),) = await store.read_streams({keys[1]: last}, 1, 10, trim={keys[1]: last})
    assert [fields[b"i"] for _, fields in rest] == [b"2"]
    assert await store.redis.xlen(keys[1]) == 1, "what was processed holds words, the last of it too"
    await store.redis.delete(*keys)


async def test_an_unreachable_store_is_unavailable_everywhere() -> None:
    store = await open_store("redis://127.0.0.1:1/0", prefix="test")
    lanes = Lanes(store)
    for attempt in (
        store.ping(),
        lanes.submit(job("a")),
        lanes.peek(["m"]),
        lanes.body(["a"]),
        store.read_streams({"x": "0-0"}, 1, 1),
    ):
        with pytest.raises(StoreUnavailable):
            await attempt
    await store.aclose()


async def test_a_full_store_is_unavailable_for_new_jobs_and_settles_old_ones(own_server: RedisServer) -> None:
    store = await open_store(own_server.url)
    lanes = Lanes(store)
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a"))
    await lanes.submit(job("b"))
    (granted,) = (await pull(lanes)).jobs
    await store.redis.config_set("maxmemory", "1")
    with pytest.raises(StoreUnavailable):
        await lanes.submit(job("c"))
    assert await lanes.settle("a", granted.fence, 1, End("done")) == "ok"
    assert await lanes.cancel("b") == "cancelled"
    assert (await lanes.load("b")).jobs == 0
    await store.aclose()


@pytest.mark.slow
async def test_a_blocking_read_outlasts_a_commands_time(own_server: RedisServer) -> None:
    store = await open_store(own_server.url)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(store.read_streams({"s": "0-0"}, 30, 1))
        loop = asyncio.get_running_loop()
        loop.call_later(5.5, lambda: group.create_task(store.redis.xadd("s", {"a": 1})))
        async with asyncio.timeout(8):
            ((key, _),) = await reading
    assert key == "s"
    await store.aclose()


async def test_after_an_empty_restart_all_goes_on(own_server: RedisServer) -> None:
    store = await open_store(own_server.url)
    lanes = Lanes(store)
    inbox = Inbox(lanes, "gate", watch_s=0.2)
    await inbox.create()
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        _, early = await inbox.submit(job("a"))
        assert early is not None
        old = inbox.name
        own_server.stop()
        with pytest.raises(StoreUnavailable):
            await inbox.submit(job("b"))
        own_server.start()

        async def there() -> bool:
            return inbox.name != old and (await lanes.place("a")).state == "waiting"

        assert await until(there)
        _, follower = await inbox.submit(job("c"))
        assert follower is not None
        for one, id in ((early, "a"), (follower, "c")):
            (granted,) = (await pull(lanes)).jobs
            assert granted.id == id
            writer.attach(granted)
            writer.write(id, words("still ", "here"))
            assert await writer.finish(id, End("done")) == "ok"
            assert await answer(one) == ("still here", End("done"))
    await store.aclose()


async def test_an_outage_under_an_answer_costs_a_pause(own_server: RedisServer) -> None:
    """The server is stopped in its tracks, and goes on."""
    store = await open_store(own_server.url)
    lanes = Lanes(store)
    inbox = Inbox(lanes, "gate", watch_s=0.2)
    await inbox.create()
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        _, follower = await inbox.submit(job("a"))
        assert follower is not None
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        for i in range(200):
            writer.write("a", words(f"{i} "))
            if i % 40 == 20:
                await store.redis.client_kill_filter(_type="normal", skipme=False)
            await asyncio.sleep(0.002)
        assert await writer.finish("a", End("done")) == "ok"
        assert await answer(follower) == ("".join(f"{i} " for i in range(200)), End("done"))
    await store.aclose()


async def test_a_job_that_may_have_gone_in_is_cancelled(own_server: RedisServer) -> None:
    store = await open_store(own_server.url)
    lanes = Lanes(store)
    inbox = Inbox(lanes, "gate", watch_s=0.2)
    await inbox.create()
    own_server.stop()
    with pytest.raises(StoreUnavailable):
        await inbox.submit(job("a"))
    own_server.start()

    async def created() -> bool:
        try:
            await inbox.create()
        except StoreUnavailable:
            return False
        return True

    assert await until(created)
    await lanes.submit(job("a", inbox=inbox.name))
    async with beside(inbox.run):
        assert await until(lambda: _done(lanes, "a"))
    await store.aclose()


async def _done(lanes: Lanes, id: str) -> bool:
    return (await lanes.place(id)).state == "done"


async def test_each_scheme_opens_its_client() -> None:
    for url, kind in (
        ("redis://:secret@127.0.0.1:6390/3", Store),
        ("rediss://127.0.0.1:6390", Store),
        ("unix:///tmp/none.sock", Store),
        ("redis+sentinel://user:pass@a:26379,b/main/2", Store),
        ("redis+cluster://a:7000,[::1]:7001", ClusterStore),
    ):
        store = await open_store(url)
        assert type(store) is kind
        assert not store.embedded
        await store.aclose()


@pytest.mark.parametrize(
    "url",
    ["http://a", "redis+sentinel://a:1", "redis+sentinel://a:1/main/x", "redis+cluster://a:x", "redis+cluster://"],
)
async def test_a_bad_url_is_a_sentence(url: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        await open_store(url)


async def test_embedded_stores_are_each_their_own() -> None:
    one, two = await open_store(None), await open_store(None)
    await at_home(Lanes(one))
    await Lanes(one).submit(job("a"))
    assert (await Lanes(two).place("a")).state == "gone"
    assert (await Lanes(one).place("a")).state == "waiting"


async def test_a_cancelled_reader_stops(store: Store) -> None:
    reading = asyncio.create_task(_read_on(store))
    for _ in range(3):
        await asyncio.sleep(0)
    reading.cancel()
    done, _ = await asyncio.wait([reading], timeout=5)
    assert done


async def _read_on(store: Store) -> None:
    while True:
        await store.read_streams({f"{store.prefix}:{{default}}:inbox:x": "0-0"}, 10, 1)
