"""Standing orders, with workers that run: jobs come to an idle engine without anybody asking for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buffer.records import NewJob, Submitted
from buffer.store import Store, StoreUnavailable, open_store
from tests.rig.redis_server import RedisServer, run_redis
from tests.rig.script import HOLD, Wait, answer, role
from tests.worker.idle import Site, site, until
from tests.worker.rig import markers, now, quiet


async def test_a_job_comes_without_any_pull(real_redis: RedisServer) -> None:
    async with site(real_redis.url) as it:
        await it.stand()
        it.pulls.clear()
        for number in range(3):
            await it.serves(f"m{number}")
        assert it.pulls == []
        await until(lambda: _is_quiet(it))


async def _is_quiet(it: Site) -> bool:
    try:
        await quiet(it.door.lanes)
    except AssertionError:
        return False
    return True


async def test_an_answer_may_overtake_the_word_of_its_start(
    real_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come on two connections."""
    async with site(real_redis.url) as it:
        await it.stand()
        lanes = it.door.lanes
        submit = lanes.submit

        async def late(job: NewJob, **more: Any) -> Submitted:
            submitted = await submit(job, **more)
            assert submitted.backend
            await until(lambda: _done(it, job.id))
            await asyncio.sleep(0.05)
            return submitted

        monkeypatch.setattr(lanes, "submit", late)
        await it.serves("early")
        assert len(it.engine.requests) == 1


async def _done(it: Site, id: str) -> bool:
    return (await it.door.lanes.place(id)).state == "done"


async def test_of_two_workers_the_other_is_not_woken(real_redis: RedisServer) -> None:
    async with site(real_redis.url, 2) as it:
        await it.stand()
        it.pulls.clear()
        await it.serves()
        assert it.pulls == []


async def test_beside_a_running_one_jobs_are_pulled(real_redis: RedisServer) -> None:
    free = asyncio.Event()
    async with site(real_redis.url) as it:
        it.engine.script = lambda _: iter([Wait(free), *answer("openai", "x")])
        await it.stand()
        asks = [await it.door.ask() for _ in range(3)]
        await it.engine.received(2)
        assert it.pulls
        free.set()
        assert [(await ask.end()).kind for ask in asks] == ["done"] * 3


async def test_it_is_renewed_and_cancelled_like_any_other(real_redis: RedisServer) -> None:
    async with site(real_redis.url, lease_seconds=0.6) as it:
        it.engine.script = lambda _: [role(), "half", HOLD]
        await it.stand()
        ask = await it.door.ask()
        await ask.begin()
        await asyncio.sleep(1.0)
        (hand,) = it.pool().hands.values()
        assert (await it.door.lanes.place(ask.id)).state == "running"
        assert hand.why is None
        await it.door.lanes.cancel(ask.id)
        assert (await ask.end()).kind == "cancelled"
        await it.engine.requests[0].closed.wait()
        assert len(it.engine.requests) == 1


async def test_what_comes_as_a_worker_stops_goes_to_the_other(real_redis: RedisServer) -> None:
    """Its order is in the store still, and what came by it was not read yet."""
    async with site(real_redis.url, 2) as it:
        await it.stand()
        first = it.pool()
        await it.pool(1).standing.take_back(it.pool(1).engines[0].name)
        first.stopping = True
        ask = await it.door.ask("marker:late words:1")
        assert first.hands == {}
        first.wake()
        began = now()
        assert (await ask.end()).kind == "done"
        assert now() - began < 1.5
        assert markers(it.engine) == ["late"]


async def test_a_killed_worker_s_order_keeps_nobody_waiting(real_redis: RedisServer) -> None:
    async with site(real_redis.url, 2) as it:
        await it.stand()
        await it.crew.kill(0)
        await it.stores[0].aclose()
        for _ in range(3):
            began = now()
            await it.serves()
            assert now() - began < 1.0


async def test_an_engine_that_went_down_gives_it_back(real_redis: RedisServer) -> None:
    async with site(real_redis.url, 2) as it:
        await it.stand()
        engine = it.pool().engines[0]
        await it.pool(1).standing.take_back(engine.name)
        await it.stand(0)
        it.pulls.clear()
        # As a look does that was not answered, but that the drain has not heard of it yet.
        engine.probe = None
        ask = await it.door.ask("marker:elsewhere words:1")
        assert (await ask.end()).kind == "done"
        assert markers(it.engine) == ["elsewhere"]
        assert it.pool(1).worker in it.pulls


async def test_a_store_that_was_emptied_hears_of_them_again(real_redis: RedisServer) -> None:
    with run_redis() as server:
        async with site(server.url, 2) as it:
            for _ in range(3):
                await it.stand()
                await it.door.lanes.store.redis.flushall()
                began = now()
                await it.serves(det=True)
                await it.serves()
                assert now() - began < 2.0


async def test_a_store_that_came_back_empty_too() -> None:
    with run_redis() as server:
        async with site(server.url, 2) as it:
            await it.stand()
            server.stop()
            await asyncio.sleep(0.2)
            server.start()
            await it.serves_again(within_s=3.0)


async def _all_connected(it: Site) -> bool:
    return all(it.pool(number).connected.is_set() for number in range(len(it.crew.workers)))


async def test_what_is_read_twice_is_run_once(real_redis: RedisServer) -> None:
    async with site(real_redis.url) as it:
        await it.stand()
        pool = it.pool()
        lanes: Any = pool.lanes
        controls = lanes.controls

        async def kept(*args: Any, drop: bool = False) -> Any:
            return await controls(*args)

        # The word that would have dropped it is lost with the connections.
        lanes.controls = kept
        await it.serves("once")
        assert await pool.lanes.store.redis.xlen(pool.lanes.keys.ctl(pool.worker)) > 1
        for _ in range(2):
            # All of its connections are cut: it reads its stream from the beginning.
            for one in await it.door.lanes.store.redis.client_list():
                if one["cmd"].startswith("xread"):
                    await it.door.lanes.store.redis.client_kill(one["addr"])
            await until(lambda: _all_connected(it), 10)
            await it.serves("again")
        assert markers(it.engine) == ["once", "again", "again"]


async def test_who_may_not_subscribe_works_by_the_doorbell(caplog: pytest.LogCaptureFixture) -> None:
    with run_redis() as server:
        admin = await open_store(server.url)
        await admin.redis.execute_command("ACL", "SETUSER", "few", "on", ">pw", "~*", "+@all", "-subscribe")
        few = server.url.replace("redis://", "redis://few:pw@")
        async with site(server.url, worker_url=few) as it:
            for _ in range(2):
                began = now()
                await it.serves()
                assert now() - began < 1.0
            assert it.pulls
            assert not it.pool().standing
        await admin.aclose()
    assert [one for one in caplog.records if one.levelname != "INFO"] == []


async def test_where_subscribing_ends_the_connection_it_is_asked_ever_more_rarely(
    real_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So do some proxies."""
    tried = list[str]()

    async def closes(self: Store, channel: str) -> None:
        tried.append(channel)
        raise StoreUnavailable("The connection was closed.")

    monkeypatch.setattr(Store, "attend", closes)
    monkeypatch.setattr("worker.standing.AGAIN_S", 0.01)
    async with site(real_redis.url) as it:
        for number in range(20):
            await it.serves(f"m{number}")
        assert it.pulls
        assert 1 < len(tried) < 10
        assert not it.pool().standing
    assert [one for one in caplog.records if one.levelname != "INFO"] == []


async def test_with_a_fixed_window_nobody_stands(real_redis: RedisServer) -> None:
    async with site(real_redis.url, window_policy="fixed", window_ms=30) as it:
        await it.serves()
        assert not it.pool().standing.ever


async def test_batches_and_windows_are_counted(real_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(real_redis.url) as it:
        await it.stand()
        telemetry, seen = it.pool().telemetry, list[float]()
        monkeypatch.setattr(telemetry.batch_size, "observe", seen.append)
        monkeypatch.setattr(telemetry.batch_window, "observe", seen.append)
        await it.serves()
        assert seen == [0.0, 1]
