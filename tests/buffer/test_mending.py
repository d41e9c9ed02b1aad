"""Keys of ours that somebody else wrote to or took away."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from buffer.inbox import Inbox
from buffer.job import LANES, End
from buffer.lanes import Lanes
from buffer.memory import Memory
from buffer.records import Limits
from buffer.replies import ReplyWriter
from buffer.store import Store, StoreUnavailable, open_store
from tests.buffer.jobs import INBOX, LEASE_S, at_home, clocked, ids, job, pull, running, words
from tests.buffer.running import answer, beside, until


@pytest.fixture(params=["redis", "oldest"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Nobody else can write to an embedded one."""
    server = request.getfixturevalue("redis_server" if request.param == "redis" else "oldest_redis_server")
    opened = await open_store(server.url, prefix=f"mending-{secrets.token_hex(4)}")
    yield opened
    await opened.aclose()


async def _until(step: Any, wanted: Any) -> None:
    """Waits until ``step`` gives that. Its script may meet garbage on the way."""

    async def met() -> bool:
        try:
            return bool(await step() == wanted)
        except StoreUnavailable:
            return False

    assert await until(met)


async def _letters(lanes: Lanes) -> list[str]:
    return [fields[b"reason"].decode() for _, fields in await lanes.store.redis.xrange(lanes.keys.dead)]


@pytest.mark.parametrize(
    "name",
    [
        "lease",
        "backends",
        "bell",
        "models",
        "swept",
        "sweep",
        "jobs:fast",
        "wait:m:fast",
        "due:m",
        "turn:m:fast",
        "places:m",
    ],
)
async def test_a_key_of_a_wrong_type_stops_nobody(lanes: Lanes, name: str, caplog: pytest.LogCaptureFixture) -> None:
    await at_home(lanes)
    redis, key = lanes.store.redis, f"{lanes.keys.base}{name}"
    await redis.delete(key)
    if name == "swept":
        await redis.lpush(key, "x")
    else:
        await redis.set(key, "x")

    async def all_of_it() -> list[str]:
        await lanes.submit(job("a", lane="fast"))
        await lanes.watch(INBOX, ["a"])
        await lanes.reap(LEASE_S)
        await lanes.reap(LEASE_S)
        return await ids(lanes)

    await _until(all_of_it, ["a"])
    assert await _letters(lanes) in ([], [f"{name.partition(':')[0]}: {_found(name)}"])
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) <= 1


def _found(name: str) -> str:
    wanted = {
        "backends": "set",
        "bell": "stream",
        "sweep": "hash",
        "swept": "string",
        "jobs:fast": "stream",
        "places:m": "hash",
    }.get(name, "zset")
    return f"a {'list' if name == 'swept' else 'string'} where a {wanted} belongs"


@pytest.mark.parametrize(
    ("field", "value"),
    [("score", "x"), ("fence", ""), ("cost", "nan?")],
    ids=["score", "fence", "cost"],
)
async def test_a_record_that_no_script_can_read_ends_as_a_dead_letter(lanes: Lanes, field: str, value: str) -> None:
    await at_home(lanes)
    await lanes.submit(job("bad"))
    await lanes.submit(job("good"))
    await lanes.store.redis.hset(lanes.keys.job("bad"), field, value)

    await _until(lambda: ids(lanes), ["good"])
    assert (await lanes.place("bad")).state == "gone"
    assert await _letters(lanes) == [f"job: its field {field} is no number"]


async def test_a_job_whose_record_is_no_hash_is_gone(lanes: Lanes) -> None:
    await at_home(lanes)
    await lanes.submit(job("bad"))
    await lanes.submit(job("good"))
    await lanes.store.redis.set(lanes.keys.job("bad"), "x")
    await _until(lambda: ids(lanes), ["good"])
    await _until(lambda: _state(lanes, "bad"), "gone")


async def _state(lanes: Lanes, id: str) -> str:
    return (await lanes.place(id)).state


async def test_what_is_no_load_takes_no_place(lanes: Lanes) -> None:
    await at_home(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.hset(lanes.keys.load("b"), "x", "garbage")
    await _until(lambda: ids(lanes), ["a"])


async def test_what_a_back_end_carries_stays_whatever_else_is_dropped(lanes: Lanes) -> None:
    await at_home(lanes)
    redis, keys, memory = lanes.store.redis, lanes.keys, Memory(["n"], 0)
    await lanes.submit(job("first", lane="slow", prefill=900, splits=True))
    assert await ids(lanes, limits=Limits(slots=9, segment=400), memory=memory) == ["first"]
    await lanes.submit(job("a"))
    await redis.hset(keys.load("b"), "x", "10,5,0")
    await redis.hset(keys.memory("b"), mapping={"model": "n", "at": "x", "since": "x"})
    await redis.delete(keys.places("m"))
    await redis.set(keys.places("m"), "x", ex=60)
    await _until(lambda: ids(lanes, memory=memory), ["a"])
    assert sorted(await redis.hkeys(keys.load("b"))) == [b"a", b"first"]


async def test_members_of_orders_that_are_no_jobs_are_passed_over(lanes: Lanes) -> None:
    await at_home(lanes)
    await lanes.submit(job("a", lane="fast"))
    keys, redis = lanes.keys, lanes.store.redis
    for key in (keys.wait("m", "fast"), keys.turn("m", "fast"), f"{keys.base}due:m", keys.lease):
        await redis.zadd(key, {"garbage": 0, "": 1})
    await lanes.reap(LEASE_S)
    await lanes.reap(LEASE_S)
    assert await ids(lanes, want=3) == ["a"]


async def test_entries_of_a_lane_that_are_no_jobs_become_dead_letters(lanes: Lanes) -> None:
    await at_home(lanes)
    await lanes.submit(job("a"))
    redis = lanes.store.redis
    for lane in LANES:
        key = lanes.keys.jobs(lane)
        await redis.xadd(key, {"garbage": 1})
        await redis.xadd(key, {"id": "not-json", "model": "{", "user": "", "cost": "x"})
        await redis.xadd(key, {"id": "{}"})
    await lanes.reap(LEASE_S)
    await lanes.reap(LEASE_S)
    assert await _letters(lanes) == ["left over"] * 3 * len(LANES)
    assert await ids(lanes) == ["a"]


@pytest.mark.parametrize("what", ["wait", "turn", "due", "jobs"])
async def test_a_waiting_job_that_lost_its_place_gets_it_back(lanes: Lanes, what: str) -> None:
    await at_home(lanes)
    await lanes.submit(job("a", lane="fast"))
    await lanes.store.redis.delete(
        f"{lanes.keys.base}{what}:{'fast' if what == 'jobs' else 'm' if what == 'due' else 'm:fast'}"
    )
    await lanes.watch(INBOX, ["a"])
    assert await ids(lanes) == ["a"]


async def test_a_running_job_that_lost_its_lease_is_taken_over_all_the_same(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    await running(lanes, "a")
    await lanes.store.redis.delete(lanes.keys.lease)
    await lanes.watch(INBOX, ["a"])
    for _ in range(5):
        clock.forward(LEASE_S / 4)
        await lanes.reap(LEASE_S)
    assert (await lanes.place("a")).state == "held"


@pytest.mark.parametrize("value", ["not-json", "[[]]", ""])
async def test_a_frame_that_is_none_is_skipped(lanes: Lanes, inbox: Inbox, value: str) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        _, follower = await inbox.submit(job("a"))
        assert follower is not None
        for fields in ({"garbage": "1"}, {"p": value}, {"id": "a", "f": "x", "n": "y", "k": "ev", "d": value}):
            await lanes.store.redis.xadd(lanes.keys.inbox(inbox.name), fields)
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("a", words("all ", "the ", "same"))
        assert await writer.finish("a", End("done")) == "ok"
        assert await answer(follower) == ("all the same", End("done"))


async def test_a_command_that_is_none_is_skipped(lanes: Lanes) -> None:
    await lanes.renew("w", [], LEASE_S)
    for fields in (
        {"garbage": "1"},
        {"k": "cancel", "id": "a", "f": "x"},
        {"k": "cancel"},
        {"k": "go", "id": "b", "f": "7"},
    ):
        await lanes.store.redis.xadd(lanes.keys.ctl("w"), fields)
    last, controls = await lanes.controls("w", "0-0", 1)
    assert [(one.kind, one.id, one.fence) for one in controls][-1] == ("go", "b", 7)
    assert last != "0-0"


async def test_an_inbox_of_a_wrong_type_is_made_anew(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        await lanes.store.redis.set(lanes.keys.inbox(inbox.name), "x")
        old = inbox.name

        async def another() -> bool:
            return inbox.name != old

        assert await until(another)
        _, follower = await inbox.submit(job("a"))
        assert follower is not None
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("a", words("here"))
        async with asyncio.timeout(10):
            assert await writer.finish("a", End("done")) == "ok"
            assert await answer(follower) == ("here", End("done"))
