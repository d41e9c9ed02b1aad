"""A store that came back empty or older: the attempt that is still at a job goes on with it, and nobody else does."""

from __future__ import annotations

from typing import Any

import pytest

from buffer.fold import fold
from buffer.heard import Said, encode_said, fingerprint
from buffer.job import End
from buffer.lanes import Lanes
from buffer.past import Past
from buffer.records import GivenBack, Granted, Held, Piece, Renewed
from tests.buffer.jobs import (
    INBOX,
    LEASE_S,
    at_home,
    chunk,
    clocked,
    frames,
    ids,
    is_quiet,
    job,
    kinds,
    pull,
    record,
    running,
)
from tests.buffer.test_ownership import snapshot

SAID = Said("one")
DONE = End("done")


async def emptied(lanes: Lanes) -> None:
    """The pool's keys are gone, as after a restart without data; the inbox is there anew."""
    await lanes.store.redis.delete(*(left.key for left in await lanes.leftovers()))
    await at_home(lanes)


async def restored(lanes: Lanes, granted: Granted, have: int = 1, **more: Any) -> int:
    """The gateway of a running job has put it there again. Its new fence."""
    past = Past(
        job=job(granted.id),
        age_us=0,
        floor=more.pop("floor", granted.fence),
        said=encode_said(SAID),
        base=fingerprint(SAID),
        have=have,
        waiting=False,
        **more,
    )
    (submitted,) = await lanes.restore([past], LEASE_S)
    assert submitted.status == "restored"
    return submitted.fence


async def renew(lanes: Lanes, granted: Granted, fence: int = 0, *, backend: str = "b", worker: str = "w") -> Renewed:
    (renewed,) = await lanes.renew(worker, [Held(granted.id, fence or granted.fence, backend)], LEASE_S)
    return renewed


async def lost_and_restored(lanes: Lanes, have: int = 1, **more: Any) -> tuple[Granted, int]:
    granted = await running(lanes)
    await emptied(lanes)
    assert (await renew(lanes, granted)).status == "orphan"
    return granted, await restored(lanes, granted, have, **more)


async def test_whoever_was_at_it_is_given_the_new_fence(lanes: Lanes) -> None:
    clock = clocked(lanes)
    granted, fence = await lost_and_restored(lanes, have=7)
    clock.forward(5)
    assert await renew(lanes, granted) == Renewed("adopt", INBOX, fence, 7)
    fields = await record(lanes, "a")
    assert (fields["worker"], fields["backend"], fields["st"]) == ("w", "b", "running")
    assert "adopt" not in fields
    assert await lanes.store.redis.zscore(lanes.keys.lease, "a") == clock.now + 15_000_000
    assert await lanes.store.redis.hkeys(lanes.keys.load("b")) == [b"a"]
    assert (await renew(lanes, granted, fence)).status == "ok"
    assert await lanes.append([chunk(granted, 1, "two")._replace(fence=fence)]) == [1]
    assert await lanes.settle("a", fence, 2, DONE) == "ok"
    assert await kinds(lanes, "a") == [
        ("0-1", "queued"),
        (f"{fence}-0", "snap"),
        (f"{fence}-1", "ev"),
        (f"{fence}-2", "done"),
    ]
    assert await is_quiet(lanes)


async def test_asked_again_it_is_told_again(lanes: Lanes) -> None:
    """The answer to a renewal may get lost."""
    granted, fence = await lost_and_restored(lanes, have=2)
    told = await renew(lanes, granted)
    before = await snapshot(lanes)
    assert await renew(lanes, granted) == told
    assert {**await snapshot(lanes), lanes.keys.lease: None} == {**before, lanes.keys.lease: None}
    assert (await renew(lanes, granted, fence)).status == "ok"
    assert await renew(lanes, granted) == told


async def test_nobody_else_adopts_it(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes)
    before = await snapshot(lanes)
    for other in (granted.fence - 1, fence - 1):
        assert (await renew(lanes, granted, other)).status == "lost"
    assert (await renew(lanes, granted, fence + 1)).status == "orphan"
    await lanes.store.redis.delete(lanes.keys.ctl("w"))
    assert await snapshot(lanes) == {key: value for key, value in before.items() if key != lanes.keys.ctl("w")}
    assert await ids(lanes) == []


@pytest.mark.parametrize("adopted", [False, True])
async def test_under_the_old_fence_nothing_can_be_done_any_more(lanes: Lanes, adopted: bool) -> None:
    """Neither is the attempt told that it has lost the job: it is to go on with it."""
    granted, fence = await lost_and_restored(lanes)
    if adopted:
        await renew(lanes, granted)
    before = await snapshot(lanes)
    assert await lanes.append([chunk(granted, 1, "one")]) == ["orphan"]
    assert await lanes.settle("a", granted.fence, 1, DONE) == "orphan"
    assert await lanes.release("a", granted.fence, 1, GivenBack("error")) == "orphan"
    assert await lanes.prefilled([Piece("a", granted.fence, 0)]) == 0
    older = granted.fence - 1
    assert await lanes.append([chunk(granted, 1, "one")._replace(fence=older)]) == ["lost"]
    assert await lanes.settle("a", older, 1, DONE) == "lost"
    assert await lanes.release("a", older, 1, GivenBack("error")) == "lost"
    assert await snapshot(lanes) == before
    assert (await record(lanes, "a"))["fence"] == str(fence)


async def test_what_was_adopted_once_is_not_adopted_after_it_has_changed_hands(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes)
    await renew(lanes, granted)
    await lanes.requeue("a", fence, snapshot="", base="", spent=0, inbox=INBOX)
    (second,) = (await pull(lanes, worker="w2")).jobs
    assert (await renew(lanes, granted)).status == "lost"
    assert await lanes.append([chunk(granted, 1, "one")]) == ["lost"]
    assert await lanes.settle("a", granted.fence, 1, DONE) == "lost"
    assert (await renew(lanes, second)).status == "ok"


async def test_lost_twice_it_is_adopted_twice(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes)
    await renew(lanes, granted)
    await emptied(lanes)
    again = await restored(lanes, granted.__class__(**{**_fields(granted), "fence": fence}), have=3)
    assert again > fence
    assert (await renew(lanes, granted)).status == "lost"
    assert await renew(lanes, granted, fence) == Renewed("adopt", INBOX, again, 3)


def _fields(granted: Granted) -> dict[str, Any]:
    return {name: getattr(granted, name) for name in Granted.__slots__}


async def test_if_nobody_adopts_it_it_is_taken_over_like_any_other(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await lanes.reap(LEASE_S)
    granted, fence = await lost_and_restored(lanes)
    for _ in range(5):
        clock.forward(LEASE_S / 4)
        await lanes.watch(INBOX, [])
        await lanes.reap(LEASE_S)
    assert (await lanes.place("a")).state == "held"
    assert (await renew(lanes, granted)).status == "lost"
    assert (await renew(lanes, granted, fence)).status == "lost"


async def test_credit_moves_with_it_to_the_back_end_where_it_really_runs(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes, backend="other")
    assert (await lanes.load("other")).jobs == 1
    await renew(lanes, granted)
    assert ((await lanes.load("other")).jobs, (await lanes.load("b")).jobs) == (0, 1)
    assert await lanes.settle("a", fence, 1, DONE) == "ok"
    assert await is_quiet(lanes)


async def test_cancelled_before_it_is_adopted_it_is_adopted_and_told(lanes: Lanes) -> None:
    granted, fence = await lost_and_restored(lanes)
    assert await lanes.cancel("a") == "running"
    assert (await renew(lanes, granted)).status == "adopt"
    assert (await renew(lanes, granted, fence)).status == "cancel"
    assert await lanes.settle("a", fence, 1, End("cancelled")) == "ok"
    assert (await kinds(lanes, "a"))[-1] == (f"{fence}-1", "cancelled")
    assert await is_quiet(lanes)


async def test_a_job_that_its_gateway_knows_to_wait_is_nobody_s(lanes: Lanes) -> None:
    granted = await running(lanes)
    await emptied(lanes)
    past = Past(job=job("a"), age_us=0, floor=granted.fence - 5)
    assert (await lanes.restore([past], LEASE_S))[0].status == "restored"
    assert (await renew(lanes, granted)).status == "lost"
    assert await ids(lanes) == ["a"]


async def test_jobs_that_a_worker_does_not_know_of_go_back_to_their_places(lanes: Lanes) -> None:
    """Its pull was carried out, and the answer got lost."""
    await at_home(lanes)
    for id in ("known", "a", "b", "begun", "elsewhere"):
        await lanes.submit(job(id))
    known, a, b, begun = (await pull(lanes, 4)).jobs
    await pull(lanes, backend="another")
    await lanes.submit(job("others"))
    await pull(lanes, worker="w2")
    await lanes.append([chunk(begun, 1, "text")])
    await lanes.cancel("b")
    assert (await lanes.recall("w", "b", [(known.id, known.fence)])).jobs == 2
    assert (await lanes.place("a")).state == "waiting"
    assert (await kinds(lanes, "a"))[-1] == (f"{a.fence}-1", "again")
    assert {"again", "cancelled"} <= {frame["k"] for frame in await frames(lanes)}
    assert (await kinds(lanes, "b"))[-1] == (f"{b.fence}-1", "cancelled")
    assert (await lanes.recall("w", "b", [(known.id, known.fence)])).jobs == 0
    for id in ("known", "begun", "elsewhere", "others"):
        assert (await lanes.place(id)).state == "running"
    assert await lanes.append([chunk(a, 1, "late")]) == ["lost"]
    (again,) = (await pull(lanes, 8)).jobs
    assert (again.id, again.fails, again.taken) == ("a", 0, 0)


async def test_an_attempt_of_before_is_not_the_one_that_a_lost_pull_gave(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.requeue("a", granted.fence, snapshot="", base="", spent=0, inbox=INBOX)
    await pull(lanes)
    assert (await lanes.recall("w", "b", [("a", granted.fence)])).jobs == 1
    assert await ids(lanes) == ["a"]


async def test_what_it_is_to_go_on_from_is_kept(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.release("a", granted.fence, 1, GivenBack("drain", SAID, spent=5))
    await pull(lanes)
    assert (await lanes.recall("w", "b", [])).jobs == 1
    assert fold(await lanes.reply("a")).whole() == SAID
    (again,) = (await pull(lanes)).jobs
    assert (again.prefix, again.base, again.spent) == (encode_said(SAID), fingerprint(SAID), 5)


@pytest.mark.parametrize("why", ["error", "drain"])
async def test_given_back_it_may_wait_as_long_as_a_new_one(lanes: Lanes, why: Any) -> None:
    clock = clocked(lanes)
    granted = await running(lanes, timeout_us=10_000_000)
    clock.forward(9)
    await lanes.watch(INBOX, [])
    assert await lanes.release("a", granted.fence, 1, GivenBack(why)) == "waiting"
    clock.forward(9)
    await lanes.watch(INBOX, [])
    assert await ids(lanes) == ["a"]
