"""A job that goes to an idle worker as it is submitted is the job that a pull would have given it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from buffer.control import Handed
from buffer.job import End
from buffer.lanes import LARGE_BODY, Lanes
from buffer.records import Limits
from buffer.store import Store, open_store
from buffer.wire import Wire
from tests.buffer.jobs import INBOX, LEASE_S, Clock, at_home, clocked, frames, is_quiet, job, kinds, pull, ready
from tests.rig.redis_server import RedisServer

_numbers = itertools.count(1)
PIECES = Limits(slots=9, kv=1000, prefill=600, segment=400, pause_us=100_000, reserved_slots=1, kv_reserve=100)
PLAIN = Limits(slots=9)
_SETS = ("read", "write", "connection", "scripting", "transaction")
ALLOWED = ("-@all", *(f"+@{name}" for name in _SETS), "-@dangerous", "+info", "+time")


@pytest.fixture(params=["redis_server", "oldest_redis_server"])
async def server(request: pytest.FixtureRequest) -> RedisServer:
    found: RedisServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[Store]:
    """The embedded store has no standing orders."""
    opened = await open_store(server.url, prefix=f"offers-{next(_numbers)}")
    yield opened
    await opened.redis.flushdb()
    await opened.aclose()


async def attend(lanes: Lanes, worker: str = "w") -> Wire:
    await lanes.renew(worker, [], LEASE_S)
    wire = await lanes.store.attend(lanes.keys.ctl(worker))
    assert wire is not None
    return wire


async def stand(lanes: Lanes, worker: str = "w", backend: str = "b", limits: Limits = PLAIN, **more: Any) -> None:
    await lanes.stand(worker, backend, more.pop("models", ["m"]), limits=limits, lease_s=LEASE_S, **more)


@asynccontextmanager
async def idle(lanes: Lanes, *workers: str, limits: Limits = PLAIN) -> AsyncIterator[Clock]:
    clock = await ready(lanes)
    wires = [await attend(lanes, worker) for worker in workers or ("w",)]
    for worker in workers or ("w",):
        await stand(lanes, worker, limits=limits)
    yield clock
    for wire in wires:
        wire.close()


async def handed(lanes: Lanes, worker: str = "w") -> list[Handed]:
    _, words = await lanes.controls(worker, "0-0", 0.001)
    return [word for word in words if isinstance(word, Handed)]


async def all_of(lanes: Lanes) -> dict[str, object]:
    """What the pool's keys hold, but for those that tell who is idle and who was told."""
    redis, base, found = lanes.store.redis, lanes.keys.base, {}
    for key in sorted(await redis.keys(f"{base}*")):
        name = key.decode().removeprefix(base)
        if name.startswith(("orders:", "standing", "ctl:", "bell", "inbox:", "places:", "backends", "jobs:", "reply:")):
            continue
        match (await redis.type(key)).decode():
            case "hash":
                found[name] = await redis.hgetall(key)
                found[name].pop(b"entry", None)
            case "zset":
                found[name] = await redis.zrange(key, 0, -1, withscores=True)
            case _:
                found[name] = await redis.get(key)
    return found


JOBS = (
    {"lane": "normal", "prompt": 5000, "prefill": 4000, "splits": True, "offset_us": 1, "max_wait_us": 10_000_000},
    {"lane": "fast", "det": True, "owner": "key:k", "share": 0.5, "name": "M", "trace": "t"},
    {"lane": "slow", "long": True, "near": "b", "prompt": 900, "prefill": 100, "splits": True},
    {"lane": "thinking", "body": b"x" * (LARGE_BODY + 1)},
    {"lane": "normal", "body": b"x" * LARGE_BODY},
)


@pytest.mark.parametrize("fields", JOBS, ids=range(len(JOBS)))
@pytest.mark.parametrize("limits", [PLAIN, PIECES], ids=["plain", "pieces"])
async def test_it_is_what_a_pull_would_have_given(lanes: Lanes, fields: dict[str, Any], limits: Limits) -> None:
    async with idle(lanes, limits=limits) as clock:
        given = await lanes.submit(job("a", **fields), offer=True)
        assert (given.status, given.state, given.waiting, given.backend) == ("new", "running", 0, "b")
        (offered,) = await handed(lanes)
        offers, told = await all_of(lanes), await kinds(lanes, "a")
        await lanes.store.redis.flushdb()
        await at_home(lanes)
        await lanes.submit(job("a", **fields))
        pulled = await pull(lanes, limits=limits)
        assert offered.backend == "b"
        assert [offered.job] == pulled.jobs
        assert offered.job.fence == given.fence == clock.now
        assert ({"a": offered.body} if offered.body else {}) == pulled.bodies
        assert told == await kinds(lanes, "a")
        pulls = await all_of(lanes)
        if limits.segment:
            assert pulls["heed:b"].pop(b"next") == b"0"  # type: ignore[attr-defined]
        assert offers == pulls


async def test_it_ends_like_any_other(lanes: Lanes) -> None:
    async with idle(lanes):
        await lanes.submit(job("a"), offer=True)
        (one,) = await handed(lanes)
        assert await frames(lanes) == []
        assert await lanes.cancel("a") == "running"
        assert await lanes.settle("a", one.job.fence, 1, End("cancelled")) == "ok"
        assert await is_quiet(lanes)


async def test_submitted_twice_it_goes_to_one_once(lanes: Lanes) -> None:
    async with idle(lanes):
        first = await lanes.submit(job("a"), offer=True)
        before = await all_of(lanes)
        again = await lanes.submit(job("a"), offer=True)
        assert (again.status, again.fence, again.state) == ("known", first.fence, "running")
        assert len(await handed(lanes)) == 1
        assert await all_of(lanes) == before


async def test_what_was_ended_is_not_begun_again(lanes: Lanes) -> None:
    async with idle(lanes):
        await lanes.submit(job("a"), offer=True)
        (one,) = await handed(lanes)
        await lanes.settle("a", one.job.fence, 1, End("done"))
        assert (await lanes.submit(job("a"), offer=True)).state == "done"
        assert len(await handed(lanes)) == 1


async def test_a_limit_of_the_queue_refuses_none_that_does_not_wait(lanes: Lanes) -> None:
    async with idle(lanes):
        statuses = [(await lanes.submit(job(id), limit=1, offer=True)).status for id in "abc"]
        assert statuses == ["new", "new", "full"]


async def test_of_several_workers_each_back_end_s_own_has_it(lanes: Lanes) -> None:
    async with idle(lanes, "w", "v"):
        await lanes.unstand("v", "b")
        await stand(lanes, "v", "other", models=["n"])
        await lanes.submit(job("a", model="n"), offer=True)
        await lanes.submit(job("b", model="m"), offer=True)
        assert [(one.job.id, one.backend) for one in await handed(lanes, "v")] == [("a", "other")]
        assert [(one.job.id, one.backend) for one in await handed(lanes, "w")] == [("b", "b")]


async def test_a_dead_worker_is_passed_over(lanes: Lanes) -> None:
    async with idle(lanes, "dead", "w") as clock:
        wire = await attend(lanes, "gone")
        await stand(lanes, "gone")
        wire.close()
        while (await lanes.store.redis.pubsub_numsub(lanes.keys.ctl("gone")))[0][1]:
            clock.forward(0.001)
        await lanes.store.redis.zadd(lanes.keys.base + "standing", {"gone": clock.now + 1})
        await lanes.store.redis.delete(lanes.keys.ctl("dead"))
        assert (await lanes.submit(job("a"), offer=True)).state == "running"
        assert [one.job.id for one in await handed(lanes, "w")] == ["a"]


async def test_an_order_that_was_not_renewed_holds_no_more(lanes: Lanes) -> None:
    async with idle(lanes) as clock:
        clock.forward(LEASE_S / 2 - 1)
        await lanes.watch(INBOX, [])
        await lanes.renew("w", [], LEASE_S, stands=True)
        clock.forward(LEASE_S / 2 - 1)
        assert (await lanes.submit(job("a", det=True), offer=True)).state == "running"
        clock.forward(2)
        (one,) = await handed(lanes)
        await lanes.settle("a", one.job.fence, 1, End("done"))
        assert (await lanes.submit(job("b", det=True), offer=True)).state == "waiting"


async def test_an_order_outlives_the_pauses_between_renewals_of_a_long_lease(lanes: Lanes) -> None:
    async with idle(lanes):
        await lanes.stand("w", "b", ["m"], limits=PLAIN, lease_s=600.0)
        await lanes.renew("w", [], 600.0, stands=True)
        assert min([await lanes.store.redis.ttl(key) for key in (lanes.keys.standing, lanes.keys.orders("w"))]) > 150


async def test_of_what_was_never_heard_nothing_is_left(lanes: Lanes) -> None:
    async with idle(lanes) as clock:
        await lanes.submit(job("a"), offer=True)
        clock.forward(0.001)
        assert (await lanes.recall("w", "b", [])).jobs == 1
        assert [one.id for one in (await pull(lanes)).jobs] == ["a"]


async def _as_user(server: RedisServer, store: Store, *rules: str) -> Lanes:
    """The lanes of a user that may do no more than the docs say, and this. Its prefix is the test's own."""
    first = f"~{store.prefix}:*"
    await store.redis.execute_command(
        "ACL", "SETUSER", "few", "reset", "on", ">pw", "resetchannels", first, *ALLOWED, *rules
    )
    few = await open_store(server.url.replace("redis://", "redis://few:pw@"), prefix=store.prefix)
    lanes = Lanes(few)
    clocked(lanes)
    return lanes


async def test_a_user_with_what_the_docs_ask_for_may_stand(server: RedisServer, store: Store) -> None:
    lanes = await _as_user(server, store, "+subscribe", "+pubsub", f"&{store.prefix}:*")
    async with idle(lanes):
        assert (await lanes.submit(job("a"), offer=True)).state == "running"
    await lanes.store.aclose()


async def test_without_pubsub_jobs_wait_for_a_pull(server: RedisServer, store: Store) -> None:
    lanes = await _as_user(server, store, "+subscribe", f"&{store.prefix}:*")
    async with idle(lanes):
        assert (await lanes.submit(job("a"), offer=True)).state == "waiting"
        assert (await pull(lanes)).jobs[0].id == "a"
    await lanes.store.aclose()


@pytest.mark.parametrize("rules", [("+pubsub",), ("+pubsub", "+subscribe")], ids=["command", "channel"])
async def test_without_subscribe_nobody_attends(server: RedisServer, store: Store, rules: tuple[str, ...]) -> None:
    lanes = await _as_user(server, store, *rules)
    assert await lanes.store.attend(lanes.keys.ctl("w")) is None
    assert (await lanes.store.exchange([("PING",)])) == [True]
    await lanes.store.aclose()


async def test_version_3_of_the_protocol_will_do(server: RedisServer, store: Store) -> None:
    newer = await open_store(f"{server.url}?protocol=3", prefix=store.prefix)
    lanes = Lanes(newer)
    async with idle(lanes):
        assert (await lanes.submit(job("a"), offer=True)).state == "running"
    await newer.aclose()
