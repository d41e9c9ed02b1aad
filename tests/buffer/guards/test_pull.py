"""pull: whose turn it is, and who is not granted at all."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import ids_in, state
from tests.buffer.jobs import INBOX, frames, ids, job, kinds, ready, record, running

QUIET = "(q.lane ~= 'background' or quiet)"
OPEN = "    if open(q, quiet, short) then\n      local "
FIRST, NEXT = OPEN + "top", OPEN + "score"


@guard("pull", "if #granted >= want or ", "if ")
async def test_no_more_come_than_are_wanted(lanes: Lanes) -> None:
    await ready(lanes)
    for id in "abc":
        await lanes.submit(job(id))
    assert len(await ids(lanes, 2)) == 2


async def test_no_more_run_than_there_are_slots(lanes: Lanes) -> None:
    await ready(lanes)
    for id in "abc":
        await lanes.submit(job(id))
    assert len(await ids(lanes, 3, limits=Limits(slots=1))) == 1
    assert await ids(lanes, 3, limits=Limits(slots=1)) == []


@guard("pull", "if j.st == 'waiting' and ", "if ")
async def test_a_job_that_runs_is_not_granted_again(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes)
    fields = await record(lanes, "a")
    await lanes.store.redis.zadd(lanes.keys.wait("m", "fast"), {"a": fields["score"]})
    await lanes.store.redis.zadd(lanes.keys.due("m"), {"a": fields["due"]})
    assert await ids(lanes) == []


@guard("_sending", "if not body then", "if false then")
async def test_a_job_without_a_body_is_erased(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.hdel(lanes.keys.job("a"), "body")
    assert await ids(lanes) == []
    assert await state(lanes) == "gone"


@guard("_homes", "call('EXISTS', P .. 'inbox:' .. inbox) == 1", "true")
async def test_a_job_whose_inbox_is_gone_is_erased(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.delete(lanes.keys.inbox(INBOX))
    assert await ids(lanes) == []
    assert await state(lanes) == "gone"


@guard("pull", "j.det or at_home(j.inbox)", "at_home(j.inbox)")
async def test_a_detached_one_is_granted(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", det=True))
    await lanes.store.redis.delete(lanes.keys.inbox(INBOX))
    assert await ids(lanes) == ["a"]


@guard("pull", "if j.deadline >= now then", "if true then")
async def test_a_job_past_its_deadline_expires(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=1000))
    clock.forward(1)
    assert await ids(lanes) == []
    assert (await frames(lanes))[-1]["k"] == "expired"


@guard("pull", "      raise(j)\n      finish(j, 1, 'expired', expired)", "      finish(j, 1, 'expired', expired)")
async def test_its_end_is_under_a_new_fence(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=1000))
    clock.forward(1)
    await ids(lanes)
    assert await kinds(lanes, "a") == [("0-1", "queued"), (f"{clock.now}-1", "expired")]


@guard("pull", "  local j = read(c.id)\n  if j then\n", "  local j = read(c.id)\n  if true then\n")
async def test_a_place_without_a_record_is_cleared(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.delete(lanes.keys.job("a"))
    assert await ids(lanes) == []
    for name in ("wait:m:fast", "turn:m:fast", "due:m"):
        assert await ids_in(lanes, name) == []


@guard("_queues", "if c.turn then", "if false then")
async def test_a_turn_whose_score_is_another_is_cleared(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.delete(lanes.keys.job("a"))
    await lanes.store.redis.zincrby(lanes.keys.wait("m", "fast"), 5, "a")
    await ids(lanes)
    assert await ids_in(lanes, "turn:m:fast") == []


@guard("_queues", "    if score then\n", "    if true then\n")
async def test_a_turn_without_a_place_is_cleared(lanes: Lanes) -> None:
    await ready(lanes)
    for id in "ab":
        await lanes.submit(job(id))
    await lanes.store.redis.delete(lanes.keys.job("a"))
    await lanes.store.redis.zrem(lanes.keys.wait("m", "fast"), "a")
    assert await ids(lanes) == ["b"]


@guard("_queues", "open(q, quiet, short)", "true", where=FIRST)
@guard("_queues", QUIET, "true")
async def test_no_background_job_comes_before_a_persons(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("quiet", lane="background"))
    clock.forward(1)
    await lanes.submit(job("a", lane="normal"))
    assert await ids(lanes) == ["a"]
    assert await ids(lanes) == ["quiet"]


@guard("_queues", "open(q, quiet, short)", "true", where=NEXT)
async def test_nor_while_the_persons_does_not_fit(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, "first", long=True)
    clock.forward(1)
    await lanes.submit(job("quiet", lane="background"))
    await lanes.submit(job("a", long=True))
    assert await ids(lanes, limits=Limits(slots=9, long=1)) == []


@guard("_queues", "q.score < best_score", "false")
async def test_of_several_queues_the_lowest_score_comes_first(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", lane="slow"))
    clock.forward(1)
    await lanes.submit(job("b", lane="normal"))
    assert await ids(lanes) == ["a"]


@guard("_queues", "turn and string.sub(turn, 18) or head", "head")
async def test_within_a_queue_users_take_turns(lanes: Lanes) -> None:
    clock = await ready(lanes)
    for id, user in (("a", "u"), ("b", "u"), ("c", "v")):
        await lanes.submit(job(id, user=user))
        clock.forward(1)
    assert await ids(lanes, 2) == ["a", "c"]


@guard("_queues", "turn and string.sub(turn, 18) or head", "string.sub(turn, 18)")
async def test_without_its_turn_a_job_is_granted_all_the_same(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.delete(lanes.keys.turn("m", "fast"))
    assert await ids(lanes) == ["a"]


@guard("pull", "if due and due_at < j.arr then", "if false then")
@guard("pull", "if due_looks < LOOK_LANE and earliest_due < j.arr then", "if false then")
async def test_a_due_job_comes_before_who_arrived_later(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("slow", lane="slow", offset_us=60_000_000, max_wait_us=5_000_000))
    clock.forward(6)
    await lanes.submit(job("a"))
    assert await ids(lanes) == ["slow"]


@guard("pull", "if due and due_at < j.arr then", "if due then")
async def test_it_comes_not_before_who_arrived_earlier(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("slow", lane="slow", offset_us=60_000_000, max_wait_us=5_000_000))
    clock.forward(1)
    await lanes.submit(job("a", max_wait_us=50_000_000))
    clock.forward(6)
    assert await ids(lanes) == ["a"]


@guard("pull", "return allowed[j.lane] and ", "return ")
async def test_a_due_job_of_another_workers_lanes_is_left(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("slow", lane="slow", max_wait_us=1_000_000))
    clock.forward(2)
    await lanes.submit(job("a"))
    assert await ids(lanes, only=["fast"]) == ["a"]
    assert await ids(lanes, only=["slow"]) == ["slow"]


@guard("_queues", "if not j or (q.model == j.model and q.lane == j.lane) then", "if not j then")
async def test_whoever_has_been_granted_is_at_the_head_no_more(lanes: Lanes) -> None:
    await ready(lanes)
    for id in ("a", "b"):
        await lanes.submit(job(id))
    assert await ids(lanes, 3) == ["a", "b"]
    assert [await state(lanes, id) for id in ("a", "b")] == ["running", "running"]


@guard("pull", "  look_anew(queues)\n", "")
async def test_nor_is_one_that_has_expired(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=1000))
    clock.forward(1)
    await lanes.submit(job("b"))
    assert await ids(lanes, 2) == ["b"]
    assert [await state(lanes, id) for id in ("a", "b")] == ["done", "running"]
