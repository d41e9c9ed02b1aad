"""submit: into the queue, once, up to a limit."""

from __future__ import annotations

import pytest

from buffer.job import End
from buffer.keys import CANCELLED_REPLY_S
from buffer.lanes import LARGE_BODY, Lanes
from buffer.records import Submitted
from tests.buffer.jobs import INBOX, LEASE_S, START, at_home, clocked, ids, is_quiet, job, kinds, pull, record, running


async def test_a_new_job_waits_with_all_that_is_known_of_it(lanes: Lanes) -> None:
    clocked(lanes)
    got = await lanes.submit(job("a", offset_us=7, max_wait_us=100, timeout_us=1000, prefill=3, long=True, det=True))
    assert got == Submitted("new", 0, "waiting", 1)
    fields = await record(lanes, "a")
    assert fields["st"] == "waiting"
    assert (int(fields["score"]), int(fields["due"]), int(fields["deadline"])) == (START + 7, START + 100, START + 1000)
    assert (fields["long"], fields["det"], fields["prefill"], fields["body"]) == ("1", "1", "3", "{}")
    assert await kinds(lanes, "a") == [("0-1", "queued")]
    ttl = {left.key.removeprefix(lanes.keys.base): left.ttl_s for left in await lanes.leftovers()}
    assert 3590 < ttl["job:a"] <= 3600
    assert 3590 < ttl["reply:a"] <= 3600
    assert ttl["wait:m:fast"] == -1


async def test_a_background_job_has_no_due_time(lanes: Lanes) -> None:
    await at_home(lanes)
    await lanes.submit(job("a", lane="background"))
    assert (await record(lanes, "a"))["due"] == "0"
    assert await lanes.store.redis.zcard(lanes.keys.due("m")) == 0


async def test_submitted_twice_it_is_one_job(lanes: Lanes) -> None:
    await at_home(lanes)
    await lanes.submit(job("a"))
    before = await record(lanes, "a")
    assert await lanes.submit(job("a")) == Submitted("known", 0, "waiting", 1)
    assert await record(lanes, "a") == before
    assert await lanes.store.redis.xlen(lanes.keys.jobs("fast")) == 1
    assert await lanes.store.redis.zscore(lanes.keys.fair("m", "fast"), "u:u") == 100


async def test_submitted_again_it_gets_the_new_inbox(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.submit(job("a", inbox="gate:2")) == Submitted("known", granted.fence, "running", 0)
    assert (await record(lanes, "a"))["inbox"] == "gate:2"


async def test_submitted_after_its_end_it_stays_ended(lanes: Lanes) -> None:
    await at_home(lanes)
    await lanes.submit(job("a"))
    await lanes.cancel("a")
    got = await lanes.submit(job("a", body=b"x" * (LARGE_BODY + 1)))
    assert (got.status, got.state) == ("known", "done")
    assert "body" not in await record(lanes, "a")
    assert await lanes.store.redis.ttl(lanes.keys.job("a")) <= 600
    assert await is_quiet(lanes)


async def test_above_the_limit_it_is_refused_and_leaves_nothing(lanes: Lanes) -> None:
    await at_home(lanes)
    await lanes.submit(job("a"), limit=2)
    await lanes.submit(job("b", model="other", lane="slow"), limit=2)
    got = await lanes.submit(job("c", body=b"x" * (LARGE_BODY + 1)), limit=2)
    assert (got.status, got.waiting) == ("full", 2)
    assert await lanes.store.redis.exists(lanes.keys.job("c"), lanes.keys.reply("c")) == 0
    assert (await lanes.submit(job("d"), limit=3)).status == "new"


async def test_only_waiting_jobs_count_and_background_apart(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.submit(job("b", lane="background"), limit=1)
    assert (await lanes.submit(job("c"), limit=1)).status == "new"
    assert (await lanes.submit(job("d"), limit=1)).status == "full"
    assert (await lanes.submit(job("e", lane="background"), limit=1)).status == "full"


@pytest.mark.parametrize("size", [10, LARGE_BODY + 1])
async def test_the_body_comes_back_as_it_was(lanes: Lanes, size: int) -> None:
    await at_home(lanes)
    body = bytes(i % 256 for i in range(size))
    await lanes.submit(job("a", body=body))
    assert await lanes.body(["a", "none"]) == [body, None]
    assert await lanes.store.redis.ttl(lanes.keys.job("a")) > 3590


async def test_a_body_alone_is_no_job(lanes: Lanes) -> None:
    await lanes.store.redis.hset(lanes.keys.job("a"), "body", "x")
    await lanes.store.redis.expire(lanes.keys.job("a"), 60)
    assert await lanes.cancel("a") == "gone"
    assert (await lanes.place("a")).state == "gone"
    assert (await lanes.watch(INBOX, ["a"])).states == [("gone", 0)]
    assert await lanes.store.redis.ttl(lanes.keys.job("a")) <= 60


async def test_users_take_turns(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    for i in range(4):
        await lanes.submit(job(f"a{i}", user="a"))
    for user in ("b", "c"):
        await lanes.submit(job(f"{user}0", user=user))
    assert set(await ids(lanes, 3)) == {"a0", "b0", "c0"}
    await lanes.submit(job("d0", user="d"))
    assert set(await ids(lanes, 2)) == {"a1", "d0"} or "d0" in await ids(lanes, 1)


async def test_a_user_pays_what_was_really_used(lanes: Lanes) -> None:
    granted = await running(lanes, cost=100)
    await lanes.settle("a", granted.fence, 1, End("done"), real_tokens=30)
    assert await lanes.store.redis.zscore(lanes.keys.fair("m", "fast"), "u:u") == 30


async def test_users_behind_the_queues_clock_are_forgotten(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a", user="a", cost=10))
    await lanes.submit(job("b0", user="b", cost=100))
    await lanes.submit(job("b1", user="b", cost=100))
    assert len(await ids(lanes, 3)) == 3
    fair = await lanes.store.redis.zrange(lanes.keys.fair("m", "fast"), 0, -1, withscores=True)
    assert dict(fair) == {b"V": 100, b"u:b": 200}
    assert await lanes.store.redis.ttl(lanes.keys.fair("m", "fast")) > 3590


async def test_a_key_of_no_job_is_left_when_all_ended(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.renew("w", [], LEASE_S)
    await lanes.settle("a", granted.fence, 1, End("done"))
    assert await is_quiet(lanes)
    assert (await pull(lanes)).jobs == []


async def test_a_job_whose_inbox_is_gone_is_refused_and_leaves_nothing(lanes: Lanes) -> None:
    got = await lanes.submit(job("a", body=b"x" * (LARGE_BODY + 1)))
    assert (got.status, got.state) == ("homeless", "gone")
    assert await lanes.store.redis.exists(lanes.keys.job("a"), lanes.keys.reply("a")) == 0
    assert (await lanes.submit(job("b", det=True))).status == "new"


async def test_what_a_cancelled_job_had_said_is_gone_at_once_but_its_end_can_be_seen(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.cancel("a")
    await lanes.settle("a", granted.fence, 1, End("cancelled"))
    assert (await kinds(lanes, "a"))[-1][1] == "cancelled"
    assert 0 < await lanes.store.redis.ttl(lanes.keys.reply("a")) <= CANCELLED_REPLY_S
    await lanes.submit(job("b", det=True))
    await lanes.cancel("b")
    assert await lanes.store.redis.ttl(lanes.keys.reply("b")) > 500
