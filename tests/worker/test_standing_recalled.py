"""What a worker may have been granted without a word of it, by standing orders and otherwise."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from buffer.records import Limits, Pulled
from buffer.store import StoreUnavailable
from buffer.taking import Recalled
from tests.rig.redis_server import RedisServer
from tests.rig.script import HOLD, role
from tests.worker.idle import Site, site, until
from worker.recall import recall

LATER_US = 10**16
"""An instant that is far away."""


async def heard(it: Site) -> int:
    pool = it.pool()
    length: int = await pool.lanes.store.redis.xlen(pool.lanes.keys.ctl(pool.worker))
    return length


async def test_prompts_that_were_heard_are_gone(real_redis: RedisServer) -> None:
    async def nothing_left() -> bool:
        return await heard(it) == 0

    async with site(real_redis.url) as it:
        await it.stand()
        for number in range(6):
            await it.serves(f"m{number}")
        await until(nothing_left)


async def test_who_did_not_move_for_long_begins_nothing_that_lay_there(real_redis: RedisServer) -> None:
    async with site(real_redis.url) as it:
        await it.stand()
        pool = it.pool()
        pool.renewed_at -= pool.settings.lease_seconds
        before = len(it.engine.requests)
        await it.serves()
        assert len(it.engine.requests) == before + 1
        assert it.pulls, "it was put back, and pulled"


async def test_what_was_put_back_of_one_back_end_says_nothing_of_another(real_redis: RedisServer) -> None:
    async with site(real_redis.url) as it:
        await it.stand()
        it.pool().recalled["another"] = LATER_US
        it.pulls.clear()
        await it.serves()
        assert it.pulls == []


async def test_nor_is_a_job_of_another_back_end_taken_to_be_put_back(real_redis: RedisServer) -> None:
    async with site(real_redis.url) as it:
        it.engine.script = lambda _: [role(), HOLD]
        await it.stand()
        pool = it.pool()
        (engine,) = pool.engines
        lanes: Any = pool.lanes
        stopped: list[str | None] = []

        async def in_hand() -> bool:
            return bool(pool.hands)

        async def slowly(*_: Any) -> Recalled:
            await it.door.ask("marker:x words:1")
            await until(in_hand)
            return Recalled(0, LATER_US)

        lanes.recall = slowly
        await recall(pool, "another")
        stopped += [hand.why for hand in pool.hands.values()]
        assert stopped == [None]
        assert engine.name not in pool.recalled


async def test_what_a_pull_brings_that_was_put_back_meanwhile_is_not_begun(real_redis: RedisServer) -> None:
    async with site(real_redis.url) as it:

        async def pull(*_: Any, **__: Any) -> Pulled:
            pool.recalled["b"] = 5
            jobs: Any = [SimpleNamespace(id="before", fence=5), SimpleNamespace(id="after", fence=6)]
            return Pulled(jobs, 0)

        lanes: Any = SimpleNamespace(pull=pull)
        pool = replace(it.pool(), lanes=lanes, recalled={})
        pulled = await pool.pull("b", ["m"], want=2, limits=Limits(slots=2))
        assert [job.id for job in pulled.jobs] == ["after"]


async def test_an_order_of_which_no_answer_came_is_taken_back_all_the_same(real_redis: RedisServer) -> None:
    async with site(real_redis.url) as it:
        await it.stand()
        pool = it.pool()
        (engine,) = pool.engines
        lanes: Any = pool.lanes
        stand, unstand, taken_back = lanes.stand, lanes.unstand, list[str]()

        async def unanswered(*args: Any, **more: Any) -> None:
            await stand(*args, **more)
            raise StoreUnavailable("No answer came.")

        async def noted(worker: str, backend: str) -> None:
            taken_back.append(backend)
            await unstand(worker, backend)

        lanes.stand, lanes.unstand = unanswered, noted
        with pytest.raises(StoreUnavailable):
            await pool.standing.keep(engine, ["another"], engine.limits())
        assert not pool.standing  # what comes in may not ring the bell
        lanes.stand = stand
        await pool.standing.take_back(engine.name)
        assert taken_back == [engine.name]


async def test_nor_is_one_relied_on_whose_taking_back_was_not_answered(real_redis: RedisServer) -> None:
    async with site(real_redis.url) as it:
        await it.stand()
        pool = it.pool()
        (engine,) = pool.engines
        lanes: Any = pool.lanes

        async def unanswered(*_: Any) -> None:
            raise StoreUnavailable("No answer came.")

        lanes.unstand = unanswered
        with pytest.raises(StoreUnavailable):
            await pool.standing.take_back(engine.name)
        assert not pool.standing
        assert engine.name in pool.standing
        del lanes.unstand
