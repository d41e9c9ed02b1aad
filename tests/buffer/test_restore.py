"""submit with a floor: a job that the store has lost is there once more, where it was."""

from __future__ import annotations

from typing import Any

import pytest

from buffer.heard import Said, encode_said, fingerprint
from buffer.job import End
from buffer.lanes import LARGE_BODY, Lanes
from buffer.past import Past
from buffer.records import GivenBack, Piece, Submitted
from tests.buffer.jobs import (
    INBOX,
    LEASE_S,
    carried,
    chunk,
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

SAID = Said("so far")
FLOOR = 1_800_000_000_000_000
"""Ahead of the tests' clock: the store's may be behind."""


def past(id: str = "a", *, floor: int = FLOOR, **fields: Any) -> Past:
    values: dict[str, Any] = {
        "age_us": 3_000_000,
        "said": encode_said(SAID),
        "base": fingerprint(SAID),
        "spent": 2,
        "have": 2,
        "backend": "b",
        "waiting": False,
    }
    asked = fields.pop("job", None) or job(id, kv=10, prefill=5, offset_us=7, max_wait_us=100)
    return Past(job=asked, floor=floor, **{**values, **fields})


async def restore(lanes: Lanes, one: Past) -> Submitted:
    (result,) = await lanes.restore([one], LEASE_S)
    return result


async def test_a_job_that_ran_is_running_again_for_a_lease(lanes: Lanes) -> None:
    clock = await ready(lanes)
    got = await restore(lanes, past())
    assert got == Submitted("restored", FLOOR + 1, "running", 0)
    fields = await record(lanes, "a")
    assert (fields["adopt"], fields["have"], fields["fence"], fields["n"]) == (str(FLOOR), "2", str(FLOOR + 1), "0")
    arr = clock.now - 3_000_000
    assert [int(fields[name]) for name in ("arr", "score", "due")] == [arr, arr + 7, arr + 100]
    assert (fields["prefix"], fields["base"], fields["spent"]) == (encode_said(SAID), fingerprint(SAID), "2")
    assert await kinds(lanes, "a") == [("0-1", "queued"), (f"{FLOOR + 1}-0", "snap")]
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + 15_000_000
    share = await carried(lanes)
    assert (share["kv"], share["prefill"], share["long"]) == ("10", "0", "0"), "it has read its prompt"
    assert await lanes.store.redis.smembers(lanes.keys.backends) == {b"b"}
    assert await ids(lanes) == []
    assert await lanes.store.redis.xlen(lanes.keys.jobs("fast")) == 1


async def test_nobody_who_comes_for_it_is_a_worker_that_died(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.reap(LEASE_S)
    await restore(lanes, past(backend=""))
    for _ in range(5):
        clock.forward(LEASE_S / 4)
        await lanes.reap(LEASE_S)
    fields = await record(lanes, "a")
    assert fields["st"] == "held"
    assert "adopt" not in fields
    assert (await frames(lanes))[-1]["k"] == "lost"
    back = await lanes.requeue("a", int(fields["fence"]), snapshot="", base="", spent=0, inbox=INBOX)
    assert back.status == "queued"
    assert await ids(lanes) == ["a"]


async def test_a_job_that_waited_waits_where_it_was(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("later"))
    await lanes.submit(job("later still"))
    got = await restore(lanes, past(floor=0, said="", base="", spent=0, have=0, waiting=True))
    assert got == Submitted("new", 0, "waiting", 3)
    fields = await record(lanes, "a")
    assert int(fields["deadline"]) == clock.now - 3_000_000 + 120_000_000
    assert await kinds(lanes, "a") == [("0-1", "queued")]
    assert (await lanes.place("a")).ahead == 0


async def test_a_job_that_was_put_back_waits_with_its_text(lanes: Lanes) -> None:
    clock = await ready(lanes)
    got = await restore(lanes, past(waiting=True, age_us=500_000_000))
    assert got == Submitted("restored", FLOOR + 1, "waiting", 1)
    assert int((await record(lanes, "a"))["deadline"]) == clock.now + 120_000_000, "it is not late"
    (granted,) = (await pull(lanes)).jobs
    assert (granted.prefix, granted.base, granted.spent) == (encode_said(SAID), fingerprint(SAID), 2)


@pytest.mark.parametrize("waiting", [True, False])
async def test_restored_twice_it_is_one_job(lanes: Lanes, waiting: bool) -> None:
    await ready(lanes)
    first = await restore(lanes, past(waiting=waiting))
    before = await record(lanes, "a")
    again = await restore(lanes, past(waiting=waiting))
    assert (again.status, again.fence, again.state) == ("restored", first.fence, first.state)
    assert await record(lanes, "a") == before
    assert await lanes.store.redis.zscore(lanes.keys.fair("m", "fast"), "u:u") == 100
    if waiting:
        await pull(lanes)
        assert (await restore(lanes, past())).status == "known"


async def test_a_record_that_knows_more_is_left_alone(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.append([chunk(granted, 1, "more")])
    entries = await kinds(lanes, "a")
    for floor in (granted.fence, granted.fence - 1):
        got = await restore(lanes, past(floor=floor))
        assert got == Submitted("known", granted.fence, "running", 0)
    assert await kinds(lanes, "a") == entries
    await lanes.settle("a", granted.fence, 2, End("done"))
    got = await restore(lanes, past(floor=granted.fence))
    assert (got.status, got.state) == ("known", "done")


async def test_it_is_restored_over_an_older_attempt(lanes: Lanes) -> None:
    old = await running(lanes)
    await lanes.prefilled([Piece("a", old.fence, 0)])
    await lanes.cancel("a")
    got = await restore(lanes, past(floor=old.fence + 1000, backend="other"))
    assert got.status == "restored"
    assert got.fence > old.fence + 1000
    fields = await record(lanes, "a")
    assert (fields["backend"], fields.get("cancel")) == ("other", None)
    assert await lanes.store.redis.exists(lanes.keys.load("b")) == 0
    assert await lanes.store.redis.hlen(lanes.keys.load("other")) == 1
    assert await lanes.store.redis.xlen(lanes.keys.jobs("fast")) == 1
    assert await lanes.append([chunk(old, 1, "late")]) == ["lost"]
    assert await lanes.store.redis.zscore(lanes.keys.fair("m", "fast"), "u:u") == 100, "it is charged once"


async def test_it_is_restored_over_an_end_that_is_not_its_own(lanes: Lanes) -> None:
    old = await running(lanes)
    await lanes.settle("a", old.fence, 1, End("done"))
    got = await restore(lanes, past(floor=old.fence + 1, waiting=True))
    assert (got.status, got.state) == ("restored", "waiting")
    assert await ids(lanes) == ["a"]
    assert (await lanes.body(["a"])) == [b"{}"]


async def test_it_keeps_what_went_wrong_with_it(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.release("a", granted.fence, 1, GivenBack("error"))
    await restore(lanes, past(floor=FLOOR, waiting=True))
    (granted,) = (await pull(lanes)).jobs
    assert granted.fails == 1
    assert (await record(lanes, "a"))["tries"] == "2"


async def test_without_its_inbox_it_is_homeless(lanes: Lanes) -> None:
    got = await restore(lanes, past())
    assert got.status == "homeless"
    assert await lanes.store.redis.exists(lanes.keys.job("a")) == 0
    assert (await restore(lanes, past(job=job("d", det=True)))).status == "restored"


async def test_many_are_restored_at_once_with_their_bodies(lanes: Lanes) -> None:
    await ready(lanes)
    bodies = {f"j{i}": b"x" * size for i, size in enumerate((1, LARGE_BODY + 1, 2, LARGE_BODY + 2))}
    pasts = [past(job=job(id, body=body), waiting=True) for id, body in bodies.items()]
    assert [got.status for got in await lanes.restore(pasts, LEASE_S)] == ["restored"] * 4
    assert await lanes.body(list(bodies)) == list(bodies.values())
    assert await lanes.store.redis.ttl(lanes.keys.job("j1")) > 3590


async def test_a_job_put_back_is_not_late_because_it_came_long_ago(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await running(lanes, timeout_us=5_000_000)
    clock.forward(60)
    await lanes.requeue("a", granted.fence, snapshot="", base="", spent=0, inbox=INBOX)
    assert int((await record(lanes, "a"))["deadline"]) == clock.now + 5_000_000
    (granted,) = (await pull(lanes)).jobs
    clock.forward(60)
    await lanes.release("a", granted.fence, 1, GivenBack("drain"))
    assert await ids(lanes) == ["a"]


async def test_a_watch_gives_jobs_their_new_inbox(lanes: Lanes) -> None:
    await running(lanes)
    await lanes.watch("gate:none", ["a"])
    assert (await record(lanes, "a"))["inbox"] == INBOX, "there is none of that name"
    await lanes.create_inbox("gate:2")
    assert (await lanes.watch("gate:2", ["a"])).inbox_there
    assert (await record(lanes, "a"))["inbox"] == "gate:2"


async def test_a_watch_ends_what_waited_too_long(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a", timeout_us=1_000_000))
    await lanes.submit(job("b"))
    clock.forward(2)
    watched = await lanes.watch(INBOX, ["a", "b"])
    assert watched.states == [("done", clock.now), ("waiting", 0)]
    assert (await frames(lanes))[-1]["k"] == "expired"
    await lanes.cancel("b")
    assert await is_quiet(lanes)
