"""renew, append, release, settle: only the owner may, and twice does no harm."""

from __future__ import annotations

import pytest

from buffer.heard import Said, encode_said, fingerprint
from buffer.job import End, Failure
from buffer.lanes import Lanes
from buffer.records import GivenBack, Granted, Held, Piece
from tests.buffer.jobs import (
    INBOX,
    LEASE_S,
    carried,
    chunk,
    clocked,
    frames,
    ids,
    is_quiet,
    job,
    kinds,
    pull,
    ready,
    record,
    running,
)


async def snapshot(lanes: Lanes) -> dict[str, object]:
    """Everything that the pool's keys hold, lifetimes aside."""
    redis = lanes.store.redis
    found: dict[str, object] = {}
    for key, kind, _ in await lanes.leftovers():
        read = {
            "hash": redis.hgetall,
            "set": redis.smembers,
            "string": redis.get,
            "stream": redis.xrange,
            "zset": lambda key: redis.zrange(key, 0, -1, withscores=True),
        }
        found[key] = await read[kind](key)
    return found


async def taken_over(lanes: Lanes) -> tuple[Granted, Granted]:
    """A job that its first owner lost to a second: both grants."""
    first = await running(lanes)
    await lanes.requeue("a", first.fence, snapshot="", base="", spent=0, inbox=INBOX)
    (second,) = (await pull(lanes, worker="w2")).jobs
    return first, second


async def test_renew_lengthens_the_lease(lanes: Lanes) -> None:
    clock = clocked(lanes)
    granted = await running(lanes)
    clock.forward(5)
    (renewed,) = await lanes.renew("w", [Held("a", granted.fence, "b")], LEASE_S)
    assert (renewed.status, renewed.inbox) == ("ok", INBOX)
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + 15_000_000


async def test_renew_puts_back_what_the_store_forgot(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.prefilled([Piece("a", granted.fence, 0)])
    await lanes.store.redis.delete(lanes.keys.lease, lanes.keys.load("b"))
    await lanes.renew("w", [Held("a", granted.fence, "b")], LEASE_S)
    assert await lanes.store.redis.zcard(lanes.keys.lease) == 1
    share = await carried(lanes)
    assert (share["kv"], share["prefill"], share["long"]) == ("10", "0", "0")


async def test_renew_tells_each_job_what_it_is(lanes: Lanes) -> None:
    first, second = await taken_over(lanes)
    held = [
        Held("a", first.fence, "b"),
        Held("a", second.fence, "b"),
        Held("a", second.fence + 1, "b"),
        Held("none", 1, "b"),
    ]
    assert [one.status for one in await lanes.renew("w2", held, LEASE_S)] == ["lost", "ok", "orphan", "orphan"]
    await lanes.cancel("a")
    assert (await lanes.renew("w2", held[1:2], LEASE_S))[0].status == "cancel"
    await lanes.settle("a", second.fence, 1, End("cancelled"))
    assert (await lanes.renew("w2", held[1:2], LEASE_S))[0].status == "lost"


async def test_renew_keeps_the_workers_own_stream(lanes: Lanes) -> None:
    await lanes.renew("w", [], LEASE_S)
    assert 0 < await lanes.store.redis.ttl(lanes.keys.ctl("w")) <= 60
    await lanes.renew("w", [], LEASE_S)
    assert await lanes.store.redis.xlen(lanes.keys.ctl("w")) == 1


async def test_append_needs_the_fence_and_the_next_number(lanes: Lanes) -> None:
    first, second = await taken_over(lanes)
    assert await lanes.append([chunk(first, 1, "a"), chunk(second, 1, "a", "b"), chunk(second, 4, "d")]) == [
        "lost",
        2,
        2,
    ]
    assert await lanes.append([chunk(second, 1, "a", "b"), chunk(second, 3, "c")]) == [2, 3]
    ahead = chunk(second, 4, "d")._replace(fence=second.fence + 1)
    assert await lanes.append([ahead, chunk(second, 4, "d")._replace(id="none")]) == ["orphan", "orphan"]
    assert [entry for entry in await kinds(lanes, "a") if entry[1] == "ev"] == [
        (f"{second.fence}-2", "ev"),
        (f"{second.fence}-3", "ev"),
    ]


async def test_append_makes_no_key(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.store.redis.delete(lanes.keys.reply("a"))
    await lanes.append([chunk(granted, 1, "a")])
    assert await lanes.store.redis.exists(lanes.keys.reply("a")) == 0


async def test_append_to_a_job_put_back_is_lost(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.release("a", granted.fence, 1, GivenBack("drain"))
    assert await lanes.append([chunk(granted, 1, "a")]) == ["lost"]


@pytest.mark.parametrize(("why", "fails"), [("error", 1), ("drain", 0), ("passed", 0)])
async def test_release_puts_back_with_the_text(lanes: Lanes, why: str, fails: int) -> None:
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "text")])
    said = Said("text", "thought")
    result = await lanes.release("a", granted.fence, 2, GivenBack(why, said, spent=9))  # type: ignore[arg-type]
    assert result == "waiting"
    assert await kinds(lanes, "a") == [
        ("0-1", "queued"),
        (f"{granted.fence}-0", "start"),
        (f"{granted.fence}-1", "ev"),
        (f"{granted.fence}-2", "again"),
    ]
    assert (await frames(lanes))[-1] == {
        "id": "a",
        "f": str(granted.fence),
        "n": "2",
        "k": "again",
        "d": encode_said(said),
    }
    assert await lanes.store.redis.exists(lanes.keys.lease, lanes.keys.load("b")) == 0
    (again,) = (await pull(lanes)).jobs
    assert (again.prefix, again.base, again.spent, again.fails) == (encode_said(said), fingerprint(said), 9, fails)
    assert (await frames(lanes))[-1]["d"] == f"{fingerprint(said)} b"


async def test_release_needs_the_fence(lanes: Lanes) -> None:
    first, second = await taken_over(lanes)
    assert await lanes.release("a", first.fence, 1, GivenBack("error")) == "lost"
    assert await lanes.release("a", second.fence + 1, 1, GivenBack("error")) == "orphan"
    assert await lanes.release("none", 1, 1, GivenBack("error")) == "orphan"
    assert await lanes.release("a", second.fence, 1, GivenBack("error")) == "waiting"
    before = await snapshot(lanes)
    assert await lanes.release("a", second.fence, 1, GivenBack("error")) == "lost"
    assert await snapshot(lanes) == before


async def test_the_last_attempt_ends_the_job_with_a_dead_letter(lanes: Lanes) -> None:
    granted = await running(lanes)
    failure = End("failed", Failure("No.", status=500))
    assert await lanes.release("a", granted.fence, 1, GivenBack("error", max_attempts=1, failure=failure)) == "ended"
    assert (await kinds(lanes, "a"))[-1] == (f"{granted.fence}-1", "failed")
    ((_, letter),) = await lanes.store.redis.xrange(lanes.keys.dead)
    assert (letter[b"id"], letter[b"reason"]) == (b"a", b"attempts used up")
    assert await is_quiet(lanes)


async def test_drains_use_up_no_attempts(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.release("a", granted.fence, 1, GivenBack("drain", max_attempts=1)) == "waiting"


async def test_a_cancelled_job_that_is_given_back_ends(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.cancel("a")
    assert await lanes.release("a", granted.fence, 1, GivenBack("error")) == "ended"
    assert (await kinds(lanes, "a"))[-1][1] == "cancelled"
    assert await is_quiet(lanes)


async def test_settle_ends_once(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "a")])
    assert await lanes.settle("a", granted.fence, 3, End("done")) == 1
    assert await lanes.settle("a", granted.fence, 1, End("done")) == 1
    assert await lanes.settle("a", granted.fence, 2, End("done")) == "ok"
    before = await snapshot(lanes)
    assert await lanes.settle("a", granted.fence, 2, End("done"), real_tokens=5, dead="x") == "done"
    assert await snapshot(lanes) == before
    assert (await kinds(lanes, "a"))[-1] == (f"{granted.fence}-2", "done")
    assert (await frames(lanes))[-1]["n"] == "2"
    assert "body" not in await record(lanes, "a")
    assert 590 < await lanes.store.redis.ttl(lanes.keys.job("a")) <= 600
    assert 50 < await lanes.store.redis.ttl(lanes.keys.reply("a")) <= 60
    assert await is_quiet(lanes)


async def test_a_detached_answer_stays_ten_minutes(lanes: Lanes) -> None:
    granted = await running(lanes, det=True)
    await lanes.settle("a", granted.fence, 1, End("done"))
    assert 590 < await lanes.store.redis.ttl(lanes.keys.reply("a")) <= 600


async def test_settle_needs_the_fence(lanes: Lanes) -> None:
    first, second = await taken_over(lanes)
    before = await snapshot(lanes)
    assert await lanes.settle("a", first.fence, 1, End("done")) == "lost"
    assert await lanes.settle("a", second.fence + 1, 1, End("done")) == "orphan"
    assert await lanes.settle("none", 1, 1, End("done")) == "orphan"
    assert await lanes.settle("none", 1, 1, End("cancelled"), drop=True) == "gone"
    assert await lanes.settle("a", first.fence, 1, End("cancelled"), drop=True) == "lost"
    assert await snapshot(lanes) == before
    await lanes.release("a", second.fence, 1, GivenBack("drain"))
    assert await lanes.settle("a", second.fence, 2, End("done")) == "lost"


async def test_a_failure_settles_whatever_was_appended(lanes: Lanes) -> None:
    granted = await running(lanes)
    assert await lanes.settle("a", granted.fence, 7, End("failed", Failure("No.")), dead="unreadable") == "ok"
    assert (await kinds(lanes, "a"))[-1] == (f"{granted.fence}-7", "failed")
    ((_, letter),) = await lanes.store.redis.xrange(lanes.keys.dead)
    assert letter[b"reason"] == b"unreadable"


async def test_a_fault_of_the_request_is_no_dead_letter(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("failed", Failure("Bad.", status=400)))
    assert await lanes.store.redis.exists(lanes.keys.dead) == 0


async def test_dropped_it_is_gone_without_a_word(lanes: Lanes) -> None:
    granted = await running(lanes)
    sent = await frames(lanes)
    assert await lanes.settle("a", granted.fence, 1, End("cancelled"), drop=True) == "ok"
    assert await lanes.settle("a", granted.fence, 1, End("cancelled"), drop=True) == "gone"
    assert await frames(lanes) == sent
    assert await ids(lanes) == []
    assert await is_quiet(lanes)


async def test_a_job_that_failed_at_a_back_end_is_left_to_others_for_a_while(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a"))
    (first,) = (await pull(lanes)).jobs
    assert await lanes.release("a", first.fence, 1, GivenBack("error", leave_s=2.0)) == "waiting"
    await lanes.submit(job("b"))
    assert [granted.id for granted in (await pull(lanes, 2, worker="another")).jobs] == ["b"]
    clock.forward(1.0)
    assert (await pull(lanes)).jobs == []
    (elsewhere,) = (await pull(lanes, backend="sound")).jobs
    assert elsewhere.id == "a"
    await lanes.release("a", elsewhere.fence, 1, GivenBack("error", leave_s=2.0))
    clock.forward(2.5)
    assert [granted.id for granted in (await pull(lanes, backend="sound")).jobs] == ["a"]
