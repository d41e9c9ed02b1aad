"""Shares: what an owner may have of a back end while others wait, and of a full queue; how often a key may come in."""

from __future__ import annotations

from typing import Any

from buffer.job import End
from buffer.lanes import Lanes
from buffer.records import Limits, NewJob
from buffer.scripting import script
from tests.buffer.jobs import ids, is_quiet, job, pull, ready, running

HALF = 500
FOUR = Limits(slots=4)
W = 60_000_000


def owned(id: str, owner: str, share: int = 0, **more: Any) -> NewJob:
    return job(id, user=owner, owner=f"key:{owner}", share=share, **more)


async def flood(lanes: Lanes, count: int, owner: str = "ann", share: int = HALF, **more: Any) -> None:
    for number in range(count):
        await lanes.submit(owned(f"{owner}{number}", owner, share, **more))


async def test_while_others_wait_an_owner_has_its_share_and_no_more(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await flood(lanes, 6)
    clock.forward(1)
    await lanes.submit(owned("bob0", "bob"))
    await lanes.submit(owned("bob1", "bob"))
    assert set(await ids(lanes, 4, limits=FOUR)) == {"ann0", "ann1", "bob0", "bob1"}


async def test_what_nobody_else_waits_for_is_its_own(lanes: Lanes) -> None:
    await ready(lanes)
    await flood(lanes, 6)
    assert await ids(lanes, 4, limits=FOUR) == ["ann0", "ann1", "ann2", "ann3"]
    assert await ids(lanes, 4, limits=FOUR) == []


async def test_it_counts_what_runs_already_at_that_back_end(lanes: Lanes) -> None:
    await ready(lanes)
    await flood(lanes, 3)
    assert await ids(lanes, 2, limits=FOUR) == ["ann0", "ann1"]
    await lanes.submit(owned("bob0", "bob"))
    assert await ids(lanes, limits=FOUR) == ["bob0"]
    await lanes.submit(owned("bob1", "bob"))
    # Elsewhere ann has nothing yet.
    assert await ids(lanes, limits=FOUR, backend="other") == ["ann2"]


async def test_a_share_is_rounded_up_so_it_is_one_place_at_least(lanes: Lanes) -> None:
    await ready(lanes)
    await flood(lanes, 3, share=1)
    await lanes.submit(owned("bob0", "bob"))
    assert set(await ids(lanes, 2, limits=FOUR)) == {"ann0", "bob0"}
    await flood(lanes, 9, owner="cat", share=300)
    await lanes.submit(owned("bob1", "bob"))
    assert sorted(await ids(lanes, 2, limits=FOUR)) == ["bob1", "cat0"]


async def test_all_users_of_an_owner_count_together(lanes: Lanes) -> None:
    await ready(lanes)
    for number in range(4):
        await lanes.submit(job(f"p{number}", user=f"person:{number}", owner="key:ui", share=HALF))
    await lanes.submit(owned("bob0", "bob"))
    await lanes.submit(owned("bob1", "bob"))
    assert set(await ids(lanes, 4, limits=FOUR)) == {"p0", "p1", "bob0", "bob1"}


async def test_whoever_has_none_runs_as_ever(lanes: Lanes) -> None:
    await ready(lanes)
    await flood(lanes, 4, share=0)
    await lanes.submit(owned("bob0", "bob", HALF))
    assert len(await ids(lanes, 4, limits=FOUR)) == 4


async def test_those_behind_a_long_row_are_found(lanes: Lanes) -> None:
    """By turn, where they stand in front: by score they are far behind."""
    clock = await ready(lanes)
    await flood(lanes, 100, share=HALF)
    clock.forward(1)
    await lanes.submit(owned("bob0", "bob"))
    await lanes.submit(owned("cat0", "cat", lane="slow", offset_us=W))
    assert set(await ids(lanes, 4, limits=FOUR)) == {"ann0", "ann1", "bob0", "cat0"}


async def test_a_due_job_over_its_share_is_passed_and_bars_nobody(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await flood(lanes, 2, share=1)
    assert await ids(lanes, limits=FOUR) == ["ann0"]
    clock.forward(61)
    await lanes.submit(owned("bob0", "bob"))
    assert await ids(lanes, limits=FOUR) == ["bob0"]
    assert await ids(lanes, limits=FOUR) == ["ann1"]


async def test_others_who_do_not_fit_keep_it_out_and_its_own_do_not(lanes: Lanes) -> None:
    await ready(lanes)
    limits = Limits(slots=4, kv=100)
    await lanes.submit(owned("ann0", "ann", 1, kv=60))
    assert await ids(lanes, limits=limits) == ["ann0"]
    await lanes.submit(owned("ann1", "ann", 1, kv=10))
    await lanes.submit(owned("bob0", "bob", kv=80))
    assert await ids(lanes, limits=limits) == []
    await lanes.cancel("bob0")
    assert await ids(lanes, limits=limits) == ["ann1"]


async def test_nothing_is_left_of_shares(lanes: Lanes) -> None:
    await ready(lanes)
    await flood(lanes, 2)
    for granted in (await pull(lanes, 2, limits=FOUR)).jobs:
        await lanes.settle(granted.id, granted.fence, 1, End("done"))
    assert await is_quiet(lanes)


# A full queue --------------------------------------------------------------------------------------------------------


async def test_who_has_more_than_a_fair_part_of_a_full_queue_is_told_so(lanes: Lanes) -> None:
    await ready(lanes)
    await flood(lanes, 3, share=0)
    assert (await lanes.submit(owned("bob0", "bob"), limit=4)).status == "new"
    over = await lanes.submit(owned("more", "ann"), limit=4)
    assert (over.status, over.waiting, over.users) == ("over", 3, 2)
    for user in ("bob", "new"):
        full = await lanes.submit(owned("more", user), limit=4)
        assert (full.status, full.waiting) == ("full", 4)


async def test_alone_its_fair_part_is_all(lanes: Lanes) -> None:
    await ready(lanes)
    await flood(lanes, 4, share=0)
    assert (await lanes.submit(owned("more", "ann"), limit=4)).status == "full"


async def test_running_jobs_and_those_of_other_queues_are_no_part_of_it(lanes: Lanes) -> None:
    await running(lanes, "r", user="bob")
    await flood(lanes, 2, share=0)
    await lanes.submit(owned("bob0", "bob", model="other", lane="slow"))
    await lanes.submit(owned("bob1", "bob", lane="background"))
    assert (await lanes.submit(owned("more", "ann"), limit=3)).status == "over"
    assert (await lanes.submit(owned("more", "bob"), limit=3)).status == "full"


async def test_of_embeddings_inputs_count(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(owned("a", "ann", inputs=7))
    await lanes.submit(owned("b", "bob", inputs=1))
    over = await lanes.submit(owned("c", "ann", inputs=3), limit=10)
    assert (over.status, over.waiting, over.users) == ("over", 7, 2)
    assert (await lanes.submit(owned("c", "bob", inputs=3), limit=10)).status == "full"


async def test_who_waits_is_counted_once_a_second(lanes: Lanes) -> None:
    await ready(lanes)
    await flood(lanes, 2, share=0)
    assert (await lanes.submit(owned("bob0", "bob"), limit=2)).status == "full"
    key = lanes.keys.crowd("fast")
    assert await lanes.store.redis.hgetall(key) == {b"ann": b"2"}
    assert 0 < await lanes.store.redis.pttl(key) <= 1000


# A key's rate --------------------------------------------------------------------------------------------------------


async def come(lanes: Lanes, now: int, most: int = 3, name: str = "ann") -> int:
    assert script("quota").sha
    wait_us = await lanes.store.script("quota", keys=[lanes.keys.base], args=[now, name, most, W])
    return int(wait_us)


async def test_no_minute_holds_more_than_its_rate(lanes: Lanes) -> None:
    second, start = 1_000_000, 1_700_000_000_000_000
    came = [start, start + 50 * second, start + 55 * second]
    assert [await come(lanes, now) for now in came] == [0, 0, 0]
    # A bucket that refills would let two in by now.
    assert await come(lanes, start + 59 * second) == second
    assert await come(lanes, start + 60 * second - 1) == 1
    assert await come(lanes, start + 60 * second) == 0
    assert await come(lanes, start + 61 * second) == 49 * second
    assert await come(lanes, start + 61 * second, name="bob") == 0


async def test_a_refusal_costs_nothing_and_nothing_is_left(lanes: Lanes) -> None:
    start = 1_700_000_000_000_000
    for _ in range(5):
        await come(lanes, start, most=2)
    key = lanes.keys.quota("ann")
    assert await lanes.store.redis.llen(key) == 2
    assert 0 < await lanes.store.redis.pttl(key) <= 60_000


async def test_a_lower_rate_holds_at_once_and_a_clock_that_goes_back_locks_nobody_out(lanes: Lanes) -> None:
    start = 1_700_000_000_000_000
    for number in range(5):
        await come(lanes, start + number, most=5)
    assert await come(lanes, start + 10, most=2) > 0
    assert await come(lanes, start - W, most=2) == 0
    assert await lanes.store.redis.llen(lanes.keys.quota("ann")) == 2
