"""watch, and retry."""

from __future__ import annotations

from buffer.job import End
from buffer.lanes import Lanes
from buffer.letters import Letters
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import change, give_back, ids_in, lifetime, state, swept
from tests.buffer.jobs import INBOX, LEASE_S, chunk, frames, ids, job, kinds, pull, ready, record, running


@guard("watch", "elseif st and st ~= 'done' then", "elseif st ~= 'done' then")
async def test_watch_keeps_no_body_without_a_job(lanes: Lanes) -> None:
    await change(lanes, "a", body="x")
    await lanes.store.redis.expire(lanes.keys.job("a"), 60)
    assert (await lanes.watch(INBOX, ["a"])).states == [("gone", 0)]
    assert await lifetime(lanes, "job:a") <= 60


@guard("watch", "elseif st and st ~= 'done' then", "elseif st then")
async def test_watch_keeps_no_ended_job(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("done"))
    await lanes.watch(INBOX, ["a"])
    assert await lifetime(lanes, "job:a") <= 600
    assert await lifetime(lanes, "reply:a") <= 60


@guard("watch", "st == 'waiting' and tonumber(v[4]) < now and ", "tonumber(v[4] or '0') < now and ")
async def test_watch_ends_no_job_that_runs(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes, timeout_us=1_000_000)
    clock.forward(2)
    assert (await lanes.watch(INBOX, ["a"])).states[0][0] == "running"


@guard("watch", "tonumber(v[4]) < now and ", "")
async def test_watch_ends_no_job_that_may_still_wait(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    assert (await lanes.watch(INBOX, ["a"])).states == [("waiting", 0)]


@guard("watch", "if st == 'waiting' and tonumber(v[4]) < now and ended < AT_ONCE then", "if false then")
async def test_watch_ends_what_waited_too_long(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=1_000_000))
    clock.forward(2)
    assert (await lanes.watch(INBOX, ["a"])).states[0][0] == "done"
    assert (await frames(lanes))[-1]["k"] == "expired"


@guard("watch", "ended < AT_ONCE", "true")
async def test_watch_ends_so_many_at_once(lanes: Lanes) -> None:
    clock = await ready(lanes)
    names = [f"j{number}" for number in range(66)]
    for name in names:
        await lanes.submit(job(name, timeout_us=1_000_000))
    clock.forward(2)
    states = (await lanes.watch(INBOX, names)).states
    assert [st for st, _ in states].count("done") == 64


@guard("watch", "    raise(j)\n", "")
async def test_their_end_is_under_a_new_fence(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=1_000_000))
    clock.forward(2)
    assert (await lanes.watch(INBOX, ["a"])).states == [("done", clock.now)]
    assert (await kinds(lanes, "a"))[-1] == (f"{clock.now}-1", "expired")


@guard("watch", "if v[3] ~= inbox and results[1] == 1 then", "if false then")
async def test_watch_readdresses_what_names_another_inbox(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.create_inbox("gate:2")
    await lanes.watch("gate:2", ["a"])
    assert (await record(lanes, "a"))["inbox"] == "gate:2"


@guard("watch", "v[3] ~= inbox and results[1] == 1", "v[3] ~= inbox")
async def test_watch_addresses_nothing_to_an_inbox_that_is_gone(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.watch("gate:2", ["a"])
    assert (await record(lanes, "a"))["inbox"] == INBOX


@guard("watch", "if not placed or ", "if ")
async def test_watch_gives_a_job_its_place_back(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", lane="background"))
    await lanes.store.redis.delete(lanes.keys.wait("m", "background"))
    await lanes.watch(INBOX, ["a"])
    assert await ids(lanes) == ["a"]


@guard("_enter", "if j.fence > 0 then", "if true then")
async def test_which_makes_it_no_younger(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=5_000_000))
    await lanes.store.redis.delete(lanes.keys.wait("m", "fast"))
    clock.forward(3)
    await lanes.watch(INBOX, ["a"])
    clock.forward(3)
    assert await ids(lanes) == []


@guard("watch", "v[7] ~= '0' and not call('ZSCORE', P .. 'due:' .. v[5], ARGV[i])", "false")
async def test_watch_gives_a_job_its_due_time_back(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await lanes.store.redis.delete(lanes.keys.due("m"))
    await lanes.watch(INBOX, ["a"])
    assert await ids_in(lanes, "due:m") == ["a"]


@guard("watch", "v[7] ~= '0' and ", "")
async def test_watch_moves_no_background_job(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", lane="background"))
    before = await record(lanes, "a")
    await lanes.watch(INBOX, ["a"])
    assert await record(lanes, "a") == before


@guard("watch", "    if st == 'waiting' then\n", "    if true then\n")
async def test_watch_puts_no_job_that_runs_into_the_queue(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.watch(INBOX, ["a"])
    assert await state(lanes) == "running"


@guard("watch", "elseif not call('ZSCORE', P .. 'lease', ARGV[i]) then", "elseif false then")
async def test_watch_gives_a_job_a_lease_back(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.store.redis.delete(lanes.keys.lease)
    await lanes.watch(INBOX, ["a"])
    assert await ids_in(lanes, "lease") == ["a"]


@guard("watch", "elseif not call('ZSCORE', P .. 'lease', ARGV[i]) then", "else")
async def test_watch_lengthens_no_lease(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await running(lanes)
    before = await lanes.store.redis.zscore(lanes.keys.lease, "a")
    clock.forward(1)
    await lanes.watch(INBOX, ["a"])
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == before


async def _given_up(lanes: Lanes) -> int:
    """A dead letter; its fence."""
    granted = await running(lanes, det=True)
    await give_back(lanes, granted, "error", max_attempts=1)
    return granted.fence


async def _retry(lanes: Lanes, id: str = "a") -> str:
    return await Letters(lanes.store, "default").retry(id)


@guard("retry", "if not j then", "if false then")
async def test_retry_of_a_job_without_a_record(lanes: Lanes) -> None:
    assert await _retry(lanes, "none") == "gone"


@guard("retry", "if j.st ~= 'done' then", "if false then")
async def test_retry_of_a_job_that_runs_leaves_it(lanes: Lanes) -> None:
    await running(lanes)
    assert await _retry(lanes) == "open"


@guard("retry", "if call('HEXISTS', j.key, 'body') == 0 then", "if false then")
async def test_retry_of_a_job_that_nobody_knows_what_was_asked_of(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("done"))
    assert await _retry(lanes) == "without body"


@guard("retry", "raise(j)\n", "")
async def test_retry_raises_the_fence(lanes: Lanes) -> None:
    fence = await _given_up(lanes)
    assert await _retry(lanes) == "queued"
    assert int((await record(lanes, "a"))["fence"]) > fence


@guard("retry", "call('DEL', reply)\n", "")
async def test_retry_begins_the_reply_anew(lanes: Lanes) -> None:
    await _given_up(lanes)
    await _retry(lanes)
    assert await kinds(lanes, "a") == [("0-1", "queued")]


@guard("retry", "'fails', '0', 'taken', '0'", "'inbox', ''")
async def test_retry_gives_all_attempts_back(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await _given_up(lanes)
    await _retry(lanes)
    clock.forward(LEASE_S / 4)
    (granted,) = (await pull(lanes)).jobs
    assert granted.fails == 0


@guard("retry", "if head[2][i] == 'd' and head[1] == '0-1' then", "if false then")
async def test_retry_keeps_how_the_answer_is_to_be_told(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.submit(job("a", det=True, told=b"so"))
    (granted,) = (await pull(lanes)).jobs
    await give_back(lanes, granted, "error", max_attempts=1)
    await _retry(lanes)
    ((_, fields),) = await lanes.reply("a")
    assert fields[b"d"] == b"so"


@guard("retry", "head[2][i] == 'd' and head[1] == '0-1'", "head[2][i] == 'd'")
async def test_retry_takes_no_answer_for_that(lanes: Lanes) -> None:
    granted = await running(lanes, det=True)
    await lanes.append([chunk(granted, 1, "a")])
    await give_back(lanes, granted, "error", n=2, max_attempts=1)
    await lanes.store.redis.xdel(lanes.keys.reply("a"), "0-1", f"{granted.fence}-0")
    await _retry(lanes)
    ((_, fields),) = await lanes.reply("a")
    assert fields[b"d"] == b""
