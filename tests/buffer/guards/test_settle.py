"""settle, and the end of a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from buffer.frames import unpack
from buffer.job import End, Failure
from buffer.lanes import Lanes
from buffer.records import Held, NewJob
from buffer.said import Last
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import give_back, letters, restored, state, swept, taken_over
from tests.buffer.jobs import INBOX, LEASE_S, chunk, frames, job, kinds, pull, running, words

DONE = End("done")


@guard("settle", "not j or j.fence < fence", "j and j.fence < fence")
async def test_settle_of_a_job_without_a_record(lanes: Lanes) -> None:
    assert await lanes.settle("none", 1, 1, DONE) == "orphan"


@guard("settle", "not j or j.fence < fence", "not j")
async def test_settle_above_the_records_fence(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.settle("a", granted.fence + 1, 1, DONE) == "orphan"
    assert await state(lanes) == "running"


@guard("settle", "if j.fence > fence then", "if false then")
async def test_settle_below_the_records_fence_is_lost(lanes: Lanes) -> None:
    first, _ = await taken_over(lanes)
    assert await lanes.settle("a", first.fence, 1, DONE) == "lost"
    assert await lanes.settle("a", first.fence, 1, End("failed")) == "lost"
    assert await state(lanes) == "running"


@guard("settle", "if j.st == 'done' then", "if false then")
async def test_settle_again_is_told_that_it_is_done(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert [await lanes.settle("a", granted.fence, 1, DONE) for _ in range(2)] == ["ok", "done"]


@guard("settle", "if j.st ~= 'running' and j.st ~= 'held' then", "if false then")
async def test_settle_of_a_job_given_back_is_lost(lanes: Lanes) -> None:
    granted = await running(lanes)
    await give_back(lanes, granted)
    assert await lanes.settle("a", granted.fence, 2, DONE) == "lost"
    assert await state(lanes) == "waiting"


@guard("settle", " and j.st ~= 'held' then", " then")
async def test_a_gateway_may_settle_what_is_held(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await running(lanes)
    clock.forward(LEASE_S)
    await lanes.reap(4 * LEASE_S)
    fence = (await lanes.place("a")).fence
    assert await state(lanes) == "held"
    assert await lanes.settle("a", fence, 1, End("failed")) == "ok"


@guard("settle", "kind == 'done' and n ~= j.n + 1", "false")
async def test_done_needs_the_whole_answer_in_the_reply_key(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a")])
    assert await lanes.settle("a", granted.fence, 3, DONE) == 1
    assert await state(lanes) == "running"


@guard("settle", "kind == 'done' and n ~= j.n + 1", "kind == 'done' and n > j.n + 1")
async def test_done_below_what_the_reply_key_has_is_told_so(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a", "b")])
    assert await lanes.settle("a", granted.fence, 1, DONE) == 2


@guard("settle", "kind == 'done' and n ~= j.n + 1", "n ~= j.n + 1")
async def test_a_failure_needs_nothing_in_the_reply_key(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.settle("a", granted.fence, 7, End("failed")) == "ok"


@guard("settle", "math.max(n, j.n + 1)", "n")
async def test_a_failure_stands_behind_what_was_appended(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a", "b", "c")])
    assert await lanes.settle("a", granted.fence, 2, End("failed")) == "ok"
    assert (await kinds(lanes, "a"))[-1] == (f"{granted.fence}-4", "failed")


@guard("settle", "if kind == 'drop' then", "if false then")
async def test_dropped_it_leaves_no_end(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.settle("a", granted.fence, 1, End("cancelled"), drop=True) == "ok"
    assert await state(lanes) == "gone"


@guard("settle", "kind == 'cancelled' and j.cancel ~= ''", "false")
async def test_a_cancelled_job_ends_as_who_cancelled_it_said(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.cancel("a", "expired", End("expired", Failure("Too late.", 503)))
    await lanes.settle("a", granted.fence, 1, End("cancelled"))
    assert (await frames(lanes))[-1]["k"] == "expired"
    assert "Too late." in (await frames(lanes))[-1]["d"]


@guard("settle", "kind == 'cancelled' and j.cancel ~= ''", "j.cancel ~= ''")
async def test_an_answer_that_was_whole_before_its_cancel_is_done(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.cancel("a")
    await lanes.settle("a", granted.fence, 1, DONE)
    assert (await frames(lanes))[-1]["k"] == "done"


async def _turn(lanes: Lanes, user: str = "u") -> float | None:
    turn: float | None = await lanes.store.redis.zscore(lanes.keys.fair("m", "fast"), f"u:{user}")
    return turn


@guard("settle", "if real then", "if false then")
async def test_a_user_is_charged_what_was_used(lanes: Lanes) -> None:
    granted = await running(lanes, cost=100)
    await lanes.settle("a", granted.fence, 1, DONE, real_tokens=30)
    assert await _turn(lanes) == 30


@guard("settle", "account and tonumber(account) + real - j.cost or j.tag + real", "j.tag + real")
async def test_a_users_other_jobs_stay_charged(lanes: Lanes) -> None:
    granted = await running(lanes, cost=100)
    await lanes.submit(_another("b"))
    await lanes.settle("a", granted.fence, 1, DONE, real_tokens=30)
    assert await _turn(lanes) == 130


@guard("settle", "account or turn > tonumber(clock or '0')", "true")
async def test_a_user_whose_turn_lies_behind_is_not_kept(lanes: Lanes) -> None:
    granted = await running(lanes, cost=100)
    for name in ("b", "c"):
        await lanes.submit(_another(name, user="v"))
    await pull(lanes, 2)
    assert await _turn(lanes) is None
    await lanes.settle("a", granted.fence, 1, DONE, real_tokens=50)
    assert await _turn(lanes) is None


@guard("settle", "account or turn > tonumber(clock or '0')", "account")
async def test_a_user_who_used_much_is_kept_although_forgotten(lanes: Lanes) -> None:
    granted = await running(lanes, cost=100)
    for name in ("b", "c"):
        await lanes.submit(_another(name, user="v"))
    await pull(lanes, 2)
    await lanes.settle("a", granted.fence, 1, DONE, real_tokens=500)
    assert await _turn(lanes) == 500


@guard("settle", "math.max(turn, 0)", "turn")
async def test_no_users_turn_lies_before_all_others(lanes: Lanes) -> None:
    granted = await running(lanes, cost=100)
    await lanes.store.redis.zadd(lanes.keys.fair("m", "fast"), {"u:u": 50})
    await lanes.settle("a", granted.fence, 1, DONE, real_tokens=0)
    assert await _turn(lanes) == 0


@guard("settle", "if reason ~= '' then", "if true then")
async def test_a_fault_of_the_request_leaves_no_dead_letter(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("failed", Failure("Bad.", 400)))
    assert await letters(lanes) == []


@guard("settle", "if reason ~= '' then", "if false then")
async def test_a_poisoned_job_leaves_one(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("failed"), dead="unreadable")
    assert await letters(lanes) == ["unreadable"]


@guard("settle", "kind == 'drop' and 'gone' or 'orphan'", "'orphan'")
async def test_what_was_to_be_dropped_and_is_gone_is_nobodys(lanes: Lanes) -> None:
    assert await lanes.settle("none", 1, 1, End("cancelled"), drop=True) == "gone"


@guard("settle", "heir(j.key, ARGV[3], j.under) and 'orphan' or 'lost'", "'lost'")
async def test_settle_by_whom_the_restored_job_waits_for_is_an_orphans(lanes: Lanes) -> None:
    granted = await restored(lanes)
    assert await lanes.settle("a", granted.fence, 2, DONE) == "orphan"


@guard("settle", "j.st == 'running' and heir(", "heir(")
async def test_it_is_lost_once_it_runs_no_more(lanes: Lanes) -> None:
    granted = await restored(lanes)
    await lanes.renew("w", [Held("a", granted.fence, "b")], LEASE_S)
    adopted = replace(granted, fence=(await lanes.place("a")).fence)
    await give_back(lanes, adopted)
    assert await lanes.settle("a", granted.fence, 2, DONE) == "lost"


def _another(id: str, **fields: Any) -> NewJob:
    return job(id, cost=100, **fields)


@guard("settle", "first == j.n + 1 and ", "")
async def test_last_words_that_are_there_are_not_noted_again(lanes: Lanes) -> None:
    granted = await running(lanes)
    whole = chunk(granted, 1, "a")
    assert await lanes.append([whole]) == [1]
    call = lanes.settle_call("a", granted.fence, 2, DONE, last=Last(1, whole.events, 1))
    (reply,) = await lanes.store.exchange([call])
    assert lanes.settled(reply) == "ok"
    assert [kind for _, kind in await kinds(lanes, "a")] == ["queued", "start", "ev", "done"]


@guard("settle", "if lacks > 0 then", "if false then")
@guard("_finish", "frame(j, n, kind, data, unpack(said or NOTHING))", "frame(j, n, kind, data)")
async def test_an_end_takes_along_what_was_said_last(lanes: Lanes) -> None:
    granted = await running(lanes)
    whole = chunk(granted, 1, "a", "b")
    call = lanes.settle_call("a", granted.fence, 3, DONE, last=Last(1, whole.events, 1))
    (reply,) = await lanes.store.exchange([call])
    assert lanes.settled(reply) == "ok"
    assert [kind for _, kind in await kinds(lanes, "a")] == ["queued", "start", "ev", "done"]
    entries = await lanes.store.redis.xrange(lanes.keys.inbox(INBOX))
    said, end = unpack(entries[-1][1])
    assert (said.kind, said.n, said.events) == ("ev", 1, words("a", "b"))
    assert (end.kind, end.n) == ("done", 3)


@guard("settle", "if lacks > 0 then", "if true then")
async def test_an_end_by_itself_brings_no_events(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.settle("a", granted.fence, 1, DONE) == "ok"
    assert (await frames(lanes))[-1].keys() == {"id", "f", "n", "k", "d"}


@guard("settle", "'NOMKSTREAM', ", "")
async def test_last_words_make_no_reply_key(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.store.redis.delete(lanes.keys.reply("a"))
    call = lanes.settle_call("a", granted.fence, 2, DONE, last=Last(1, chunk(granted, 1, "a").events, 1))
    (reply,) = await lanes.store.exchange([call])
    assert lanes.settled(reply) == "ok"
    assert not await lanes.store.redis.exists(lanes.keys.reply("a"))
