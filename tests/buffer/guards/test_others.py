"""Keys of clients, full queues, counts, and what else is asked of a store."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.load import BackendState, publish_state
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import change, ids_in, lifetime
from tests.buffer.jobs import Clock, clocked, ids, job, ready, running

MINUTE_US = 60_000_000


async def _quota(lanes: Lanes, clock: Clock) -> int:
    args = [clock.now, "k", 2, MINUTE_US]
    waits: int = await lanes.store.script("quota", keys=[lanes.keys.base], args=args)
    return waits


@guard("quota", "now - tonumber(oldest) < window", "false")
async def test_a_key_has_so_many_requests_in_a_minute(lanes: Lanes) -> None:
    clock = clocked(lanes)
    assert [await _quota(lanes, clock) for _ in range(3)] == [0, 0, MINUTE_US]


@guard("quota", "now - tonumber(oldest) < window", "true")
async def test_after_it_a_key_has_them_again(lanes: Lanes) -> None:
    clock = clocked(lanes)
    for _ in range(2):
        await _quota(lanes, clock)
    clock.forward(61)
    assert await _quota(lanes, clock) == 0


@guard("quota", "tonumber(oldest) <= now and ", "")
async def test_a_clock_that_went_back_refuses_nobody(lanes: Lanes) -> None:
    clock = clocked(lanes)
    for _ in range(2):
        await _quota(lanes, clock)
    clock.forward(-2)
    assert await _quota(lanes, clock) == 0


async def _full(lanes: Lanes, *users: str, more: str = "u") -> str:
    await ready(lanes)
    for number, user in enumerate(users):
        await lanes.submit(job(f"j{number}", user=user))
    return (await lanes.submit(job("one more", user=more), limit=len(users))).status


@guard("_submitting", "if mine > limit / users then", "if false then")
async def test_who_has_most_of_a_full_queue_is_told_so(lanes: Lanes) -> None:
    assert await _full(lanes, "u", "u", "u", "v") == "over"


@guard("_submitting", "if mine > limit / users then", "if true then")
async def test_who_has_not_is_told_that_it_is_full(lanes: Lanes) -> None:
    assert await _full(lanes, "v", "v", "v", "u") == "full"


@guard("_crowd", "if call('EXISTS', key) == 0 then", "if true then")
async def test_a_full_queue_is_counted_once_a_second(lanes: Lanes) -> None:
    assert await _full(lanes, "v", "v", "v", "u") == "full"
    for number in range(3):
        await lanes.submit(job(f"more {number}"))
    assert (await lanes.submit(job("again"), limit=4)).status == "full"


@guard("_crowd", "if whose then", "if true then")
async def test_a_place_without_a_record_is_counted_for_nobody(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.delete(lanes.keys.job("a"))
    assert (await lanes.submit(job("b"), limit=1)).status == "full"


@guard("_core", "if now == 0 then", "if false then")
async def test_a_fence_is_an_instant_of_the_stores_clock(lanes: Lanes) -> None:
    now = int((await lanes.store.redis.time())[0])
    assert now - 5 <= (await running(lanes)).fence // 1_000_000 <= now + 60


@guard("_submitting", "waiting + math.max(inputs, 1)}", "waiting + inputs}")
async def test_who_comes_in_is_counted_with_those_who_wait(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await lanes.submit(job("a"))).waiting == 1


@guard("_count", "if known[ARGV[i]] then", "if false then")
async def test_a_model_that_was_asked_for_is_looked_at(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    assert await ids(lanes) == ["a"]


@guard("_enter", "if j.inputs > 1 then", "if true then")
async def test_chats_are_not_noted_among_inputs(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    assert await lifetime(lanes, "inputs") == -2


@guard("_place", "if j.inputs > 1 then", "if false then")
async def test_inputs_of_what_waits_no_more_are_not_counted(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", inputs=3))
    await ids(lanes)
    assert await ids_in(lanes, "inputs") == []


@guard("depths", "if count > 0 then", "if false then")
async def test_who_waits_is_counted(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    assert (await lanes.depths())["fast"].waiting == 1


@guard("depths", "math.min(oldest, ", "math.max(oldest, ")
async def test_who_waits_longest_is_told(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a"))
    clock.forward(3)
    await lanes.submit(job("b"))
    assert (await lanes.depths())["fast"].oldest_wait_us == 3_000_000


@guard("peek", "arr < oldest", "arr > oldest")
async def test_who_waits_longest_is_seen(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", model="n"))
    clock.forward(1)
    await lanes.submit(job("b"))
    assert (await lanes.peek(["m", "n"])).oldest_arr_us == clock.now - 1_000_000


@guard("peek", "arr > 0 and ", "")
async def test_a_place_without_a_record_has_not_waited(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.submit(job("b", lane="background"))
    await lanes.store.redis.delete(lanes.keys.job("b"))
    assert (await lanes.peek(["m"])).oldest_arr_us > 0


@guard("pull", "if people(model) > 0 or background(model) > 0 then", "if people(model) > 0 then")
async def test_a_model_that_only_background_jobs_wait_for_is_served(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", lane="background"))
    assert await ids(lanes) == ["a"]


@guard("reap", "    if j.backend ~= '' then\n", "    if false then\n")
async def test_credit_of_a_job_that_waits_is_freed(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes)
    await lanes.reap(15.0)
    await change(lanes, "a", st="done")
    clock.forward(16)
    await lanes.reap(60.0)
    assert await ids_in(lanes, "load:b") == []


@guard("told", "if value then", "if true then")
@guard("told", "if value then", "if false then")
async def test_what_has_run_out_is_told_no_more(lanes: Lanes) -> None:
    for name in ("gone", "here"):
        await publish_state(lanes.store, lanes.keys, BackendState(name=name, kind="vllm", up=True), 10)
    here = await lanes.store.redis.get(lanes.keys.state("here"))
    await lanes.store.redis.delete(lanes.keys.state("gone"))
    assert await lanes.store.script("told", keys=[lanes.keys.base], args=["state"]) == [[here]]
    assert await ids_in(lanes, "states") == ["here"]
