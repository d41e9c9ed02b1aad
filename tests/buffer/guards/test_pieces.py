"""What scripts share."""

from __future__ import annotations

from buffer.job import End
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import (
    change,
    ids_in,
    length,
    lifetime,
    requeue,
)
from tests.buffer.jobs import INBOX, frames, job, ready, record, running


@guard("_job", "if not v[1] then", "if false then")
async def test_a_body_alone_is_no_job(lanes: Lanes) -> None:
    await change(lanes, "a", body="x")
    await lanes.store.redis.expire(lanes.keys.job("a"), 60)
    assert await lanes.cancel("a") == "gone"


@guard("_reply", "'NOMKSTREAM', ", "", where="'reply:' .. j.id, 'NOMKSTREAM', ")
async def test_a_mark_makes_no_reply_key(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.store.redis.delete(lanes.keys.reply("a"))
    await requeue(lanes, granted.fence)
    assert await lifetime(lanes, "reply:a") == -2


@guard("_reply", "'NOMKSTREAM', ", "", where="'inbox:' .. j.inbox, 'NOMKSTREAM', ")
async def test_a_frame_makes_no_inbox(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.store.redis.delete(lanes.keys.inbox(INBOX))
    await lanes.settle("a", granted.fence, 1, End("failed"))
    assert await lifetime(lanes, f"inbox:{INBOX}") == -2
    await lanes.create_inbox(INBOX)
    assert await frames(lanes) == []


@guard("_reply", "redis.pcall('XADD', P .. 'reply:'", "call('XADD', P .. 'reply:'")
async def test_a_mark_that_is_refused_stops_nothing(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.store.redis.xadd(lanes.keys.reply("a"), {"k": "lost", "n": 0, "d": ""}, id="9000000000000000-0")
    assert await lanes.settle("a", granted.fence, 1, End("failed")) == "ok"
    assert (await frames(lanes))[-1]["k"] == "failed"


@guard("_place", "    call('HDEL', j.key, 'adopt', 'have', 'floor')\n", "")
@guard("_place", "if j.floor then", "if false then")
async def test_nobody_adopts_a_job_that_has_another_owner(lanes: Lanes) -> None:
    granted = await running(lanes)
    await change(lanes, "a", adopt=7, have=3, floor=7)
    await requeue(lanes, granted.fence)
    assert not {"adopt", "have", "floor"} & (await record(lanes, "a")).keys()


@guard("_place", "math.max(now, j.fence + 1)", "now")
async def test_a_fence_rises_also_when_the_clock_went_back(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    clock.forward(-2)
    assert (await requeue(lanes, granted.fence)).fence == granted.fence + 1


@guard("_place", "math.max(now, j.fence + 1)", "j.fence + 1")
async def test_a_fence_is_an_instant(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    clock.forward(2)
    assert (await requeue(lanes, granted.fence)).fence == clock.now


@guard("_place", ", 'n', '0', ...)", ", ...)")
async def test_events_are_counted_anew_under_each_fence(lanes: Lanes) -> None:
    granted = await running(lanes)
    await change(lanes, "a", n=4)
    await requeue(lanes, granted.fence)
    assert (await record(lanes, "a"))["n"] == "0"


@guard("_place", "if j.backend ~= '' then", "if true then")
async def test_a_job_of_no_known_back_end_is_freed_at_all(lanes: Lanes) -> None:
    granted = await running(lanes)
    await change(lanes, "a", backend="")
    await requeue(lanes, granted.fence)
    assert await ids_in(lanes, "load:b") == []


@guard("_enter", "if j.entry ~= '' then\n    call('XDEL', jobs, j.entry)\n  end\n", "")
async def test_a_job_put_back_has_one_entry(lanes: Lanes) -> None:
    granted = await running(lanes)
    await requeue(lanes, granted.fence)
    assert await length(lanes, "jobs:fast") == 1


@guard("_enter", "if j.due > 0 then", "if true then")
async def test_a_background_job_is_never_due(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a", lane="background"))
    assert await ids_in(lanes, "due:m") == []


@guard("_place", "if j.st == 'waiting' then", "if true then")
async def test_a_job_that_runs_no_more_has_neither_lease_nor_credit(lanes: Lanes) -> None:
    granted = await running(lanes)
    await requeue(lanes, granted.fence)
    assert await ids_in(lanes, "lease") == await ids_in(lanes, "load:b") == []


@guard("_place", "if j.st == 'waiting' then", "if false then")
@guard("_place", "if j.due > 0 then", "if false then")
async def test_a_job_that_waits_no_more_stands_in_no_order(lanes: Lanes) -> None:
    await running(lanes)
    for order in ("wait:m:fast", "turn:m:fast", "due:m"):
        assert await ids_in(lanes, order) == []


@guard("settle", "if not account then", "if false then")
async def test_what_a_user_used_is_not_kept_for_ever(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.store.redis.delete(lanes.keys.fair("m", "fast"))
    await lanes.settle("a", granted.fence, 1, End("done"), real_tokens=30)
    assert await lifetime(lanes, "fair:m:fast") > 60
