"""submit with a floor."""

from __future__ import annotations

from buffer.heard import Said
from buffer.job import End
from buffer.lanes import LARGE_BODY, Lanes
from buffer.past import Past
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import change, forget, give_back, ids_in, length, past, restore, restored, state
from tests.buffer.jobs import LEASE_S, carried, chunk, ids, job, kinds, pull, ready, record, running


@guard("_submitting", "if known and known.fence >= floor then", "if known then")
async def test_a_record_that_knows_less_gives_way(lanes: Lanes) -> None:
    granted = await running(lanes)
    await change(lanes, "a", fence=granted.fence - 5)
    assert (await restore(lanes, past(granted))).status == "restored"


@guard("_submitting", "known.fence >= floor then", "known.fence >= floor and known.st ~= 'done' then")
async def test_an_end_under_the_floor_itself_stands(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("done"))
    got = await restore(lanes, past(granted))
    assert (got.status, got.state) == ("known", "done")


@guard("_submitting", "if floor > 0 and call('HGET', key, 'floor') == int(floor) then", "if false then")
async def test_restored_twice_it_is_told_that_it_is(lanes: Lanes) -> None:
    granted = await running(lanes)
    await forget(lanes)
    assert [(await restore(lanes, past(granted))).status for _ in range(2)] == ["restored", "restored"]


@guard("_submitting", "floor > 0 and call('HGET', key, 'floor') == int(floor)", "floor > 0")
async def test_a_job_that_was_not_lost_is_not_told_so(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert (await restore(lanes, past(granted))).status == "known"


@guard(
    "_submitting",
    "math.max(now, floor + 1, known and known.fence + 1 or 0)",
    "math.max(floor + 1, known and known.fence + 1 or 0)",
)
async def test_its_fence_is_an_instant(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    await forget(lanes)
    clock.forward(1)
    assert (await restore(lanes, past(granted))).fence == clock.now


@guard(
    "_submitting",
    "math.max(now, floor + 1, known and known.fence + 1 or 0)",
    "math.max(now, known and known.fence + 1 or 0)",
)
async def test_its_fence_is_above_the_floor(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes)
    await forget(lanes)
    clock.forward(-2)
    assert (await restore(lanes, past(granted))).fence == granted.fence + 1


@guard("_submitting", "'adopt', int(floor), ", "")
async def test_it_waits_for_who_had_it(lanes: Lanes) -> None:
    granted = await restored(lanes)
    assert (await record(lanes, "a")).get("adopt") == str(granted.fence)


@guard("_submitting", "if floor > 0 then\n  j.fence", "if true then\n  j.fence")
async def test_a_job_that_was_never_taken_begins_at_no_fence(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await lanes.submit(job("a"))).fence == 0
    assert (await record(lanes, "a"))["fence"] == "0"


@guard("_submitting", "if floor > 0 then\n  call('HSET', key, 'floor'", "if false then\n  call('HSET', key, 'floor'")
async def test_its_reply_begins_with_what_had_been_said(lanes: Lanes) -> None:
    await restored(lanes)
    fence = (await lanes.place("a")).fence
    assert (await kinds(lanes, "a"))[-1] == (f"{fence}-0", "snap")


@guard("_submitting", "if known then\n", "if true then\n")
@guard("_submitting", "if lease == 0 then", "if true then")
async def test_a_job_that_ran_is_leased_to_who_had_it(lanes: Lanes) -> None:
    await restored(lanes)
    assert await state(lanes) == "running"
    assert await ids_in(lanes, "lease") == ["a"]


@guard("_submitting", "floor == 0 and 'new' or 'restored'", "'new'")
@guard("_submitting", "if lease == 0 then", "if false then")
async def test_a_job_that_waited_waits(lanes: Lanes) -> None:
    await restored(lanes, waiting=True)
    assert await ids(lanes) == ["a"]


@guard("_submitting", "if tonumber(ARGV[25]) > 0 then", "if true then")
async def test_a_job_that_had_said_nothing_takes_prefill(lanes: Lanes) -> None:
    await restored(lanes, have=0, job=job("a", lane="slow"))
    assert (await carried(lanes))["prefill"] == "5"


@guard("_submitting", "if tonumber(ARGV[25]) > 0 then", "if false then")
async def test_a_job_that_had_said_something_takes_none(lanes: Lanes) -> None:
    await restored(lanes, have=1, job=job("a", lane="slow"))
    assert (await carried(lanes))["prefill"] == "0"


@guard("_submitting", "if j.backend ~= '' then", "if false then")
async def test_a_job_whose_back_end_is_known_takes_credit_there(lanes: Lanes) -> None:
    await restored(lanes)
    assert await ids_in(lanes, "load:b") == ["a"]


@guard("_submitting", "if j.backend ~= '' then", "if true then")
async def test_another_takes_it_nowhere(lanes: Lanes) -> None:
    await restored(lanes, backend="")
    assert b"" not in await lanes.store.redis.smembers(lanes.keys.backends)


@guard("_submitting", "if known then\n", "if false then\n")
@guard("_submitting", "  out(known)\n", "")
async def test_an_older_state_of_it_takes_no_place(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted)
    await restore(lanes, past(granted, floor=granted.fence + 5))
    assert await ids_in(lanes, "wait:m:fast") == []


@guard("_submitting", "    call('XDEL', P .. 'jobs:' .. known.lane, known.entry)\n", "")
async def test_an_older_state_of_it_leaves_no_entry(lanes: Lanes) -> None:
    granted = await running(lanes)
    await restore(lanes, past(granted, floor=granted.fence + 5))
    assert await length(lanes, "jobs:fast") == 1


@guard("_submitting", "if not keeps[field] then", "if true then")
async def test_a_large_body_put_there_ahead_stays(lanes: Lanes) -> None:
    granted = await running(lanes)
    large = job("a", body=b"x" * (LARGE_BODY + 1))
    await restore(lanes, past(granted, floor=granted.fence + 5, job=large))
    (body,) = await lanes.body(["a"])
    assert len(body or b"") == LARGE_BODY + 1


@guard("_submitting", "if not keeps[field] then", "if false then")
async def test_nothing_else_of_an_older_state_stays(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.cancel("a")
    await restore(lanes, past(granted, floor=granted.fence + 5))
    assert "cancel" not in await record(lanes, "a")


@guard("_submitting", "j.fails, j.taken, j.tag = known.fails, known.taken, known.tag", "j.tag = known.tag")
async def test_how_often_it_failed_still_holds(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted, "error")
    (again,) = (await pull(lanes)).jobs
    await restore(lanes, past(again, floor=again.fence + 5))
    assert (await record(lanes, "a"))["fails"] == "1"


@guard("_submitting", "math.max(tonumber(ARGV[29]), known and known.tries or 0)", "tonumber(ARGV[29])")
@guard("_submitting", "call('HSETNX', key, 'started'", "call('HSET', key, 'started'")
async def test_how_often_it_was_tried_still_holds(lanes: Lanes) -> None:
    granted = await running(lanes)
    await change(lanes, "a", tries=3)
    before = await record(lanes, "a")
    await restore(lanes, past(granted, floor=granted.fence + 5, tries=2, started_ago_us=9))
    after = await record(lanes, "a")
    assert (after["tries"], after["started"]) == ("3", before["started"])


@guard("_submitting", "if tries > 0 then", "if true then")
@guard("_submitting", "if ARGV[31] ~= '' then", "if true then")
async def test_what_was_never_tried_has_not_begun(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    assert {"tries", "started", "first"}.isdisjoint(await record(lanes, "a"))


@guard("_submitting", "if tries > 0 then", "if false then")
@guard("_submitting", "if ARGV[31] ~= '' then", "if false then")
async def test_its_gateway_knows_how_often_it_was_tried(lanes: Lanes) -> None:
    granted = await running(lanes)
    await forget(lanes)
    await restore(lanes, past(granted, tries=2, started_ago_us=7, first_ago_us=5))
    after = await record(lanes, "a")
    assert (after["tries"], int(after["first"]) - int(after["started"])) == ("2", 2)


@guard("_enter", "if j.fence > 0 then", "if false then")
async def test_a_job_put_back_is_not_late_because_it_came_long_ago(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes, timeout_us=5_000_000)
    clock.forward(6)
    await lanes.append([chunk(granted, 1, "a")])
    await give_back(lanes, granted, n=2, said=Said("a"), spent=1)
    assert await ids(lanes) == ["a"]


@guard("_submitting", "(floor > 0 and lease == 0 and now or arr)", "arr")
async def test_one_that_the_store_had_lost_is_not_either(lanes: Lanes) -> None:
    await ready(lanes)
    late = Past(job=job("a", timeout_us=5_000_000), age_us=6_000_000, floor=7)
    await lanes.restore([late], LEASE_S)
    assert await ids(lanes) == ["a"]


@guard("_submitting", "(floor > 0 and lease == 0 and now or arr)", "now")
async def test_one_that_was_never_taken_may_be(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=5_000_000))
    await forget(lanes)
    clock.forward(6)
    await lanes.restore([Past(job=job("a", timeout_us=5_000_000), age_us=6_000_000)], LEASE_S)
    assert await ids(lanes) == []


@guard("_submitting", "if homeless and not known then", "if homeless then")
async def test_homeless_it_leaves_an_older_state_of_itself_in_its_place(lanes: Lanes) -> None:
    granted = await running(lanes)
    await change(lanes, "a", fence=granted.fence - 5)
    got = await restore(lanes, past(granted, job=job("a", inbox="gate:2")))
    assert got.status == "homeless"
    assert (await record(lanes, "a"))["st"] == "running"
