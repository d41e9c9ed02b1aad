"""A long prompt that is read in pieces, from its first one to its end, whatever happens to it meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from buffer.job import End
from buffer.lanes import Lanes
from buffer.past import Past
from buffer.records import GivenBack, Granted, Held, Limits, Piece, Renewed
from tests.buffer.guards.steps import pass_by
from tests.buffer.jobs import INBOX, LEASE_S, Clock, carried, ids, is_quiet, job, pull, ready, running

PIECES = Limits(slots=9, segment=400, pause_us=100_000)
AT_ONCE = replace(PIECES, pause_us=0)


async def sent(lanes: Lanes, id: str = "a", *, limits: Limits = PIECES, **fields: object) -> Granted:
    """A document, and its first piece."""
    await lanes.submit(job(id, **{"lane": "slow", "prefill": 1500, "splits": True, "user": id, **fields}))
    (granted,) = (await pull(lanes, limits=limits)).jobs
    assert granted.id == id
    return granted


async def further(lanes: Lanes, *, limits: Limits = PIECES, worker: str = "w") -> list[Piece]:
    pulled = await pull(lanes, 0, limits=limits, worker=worker)
    assert pulled.jobs == []
    return pulled.pieces


async def load(lanes: Lanes) -> tuple[int, int, int]:
    told = await lanes.load("b")
    return told.jobs, told.kv, told.prefill


async def test_it_goes_in_pieces_one_after_the_other(lanes: Lanes) -> None:
    clock = await ready(lanes)
    a = await sent(lanes)
    assert (a.prompt, a.upto, await load(lanes)) == (1500, 400, (1, 10, 400))
    for had, upto in ((400, 700), (700, 1000), (1000, 1300), (1300, 0)):
        clock.forward(0.1)
        assert await lanes.prefilled([Piece("a", a.fence, had)]) == 1
        assert await load(lanes) == (1, 10, 0)
        assert await further(lanes) == [Piece("a", a.fence, upto)]
        assert await load(lanes) == (1, 10, (upto or 1500) - had)
    assert await lanes.prefilled([Piece("a", a.fence, 0)]) == 1
    assert await lanes.settle("a", a.fence, 1, End("done")) == "ok"
    assert await is_quiet(lanes)


async def test_two_are_under_way_and_the_second_comes_after_a_pause(lanes: Lanes) -> None:
    clock = await ready(lanes)
    a = await sent(lanes)
    early = await pull(lanes, 0, limits=PIECES)
    assert (early.pieces, early.look_in_us) == ([], 100_000)
    clock.forward(0.1)
    assert await further(lanes) == [Piece("a", a.fence, 700)]
    clock.forward(0.1)
    assert await further(lanes) == []
    await lanes.prefilled([Piece("a", a.fence, 400)])
    assert await further(lanes) == [Piece("a", a.fence, 1000)]


async def test_pieces_are_the_smaller_the_deeper_they_lie_and_the_fuller_memory_is(lanes: Lanes) -> None:
    await ready(lanes)
    limits = Limits(slots=9, segment=400, kv=1000)
    sizes = []
    for known, kv in ((0, 0), (8_000, 0), (24_000, 0), (0, 200), (0, 300), (0, 600), (0, 950)):
        other = await running(lanes, f"other-{known}-{kv}", kv=kv)
        a = await sent(lanes, f"{known}-{kv}", limits=limits, prompt=1500 + known)
        sizes.append(a.upto - known)
        for one in (a, other):
            await lanes.settle(one.id, one.fence, 1, End("done"))
    assert sizes == [400, 300, 200, 300, 200, 100, 100]


async def test_one_prompt_of_a_lane_is_read_after_the_other(lanes: Lanes) -> None:
    clock = await ready(lanes)
    a = await sent(lanes, prefill=700)
    await lanes.submit(job("b", lane="slow", prefill=900, splits=True, user="b"))
    clock.forward(0.1)
    pulled = await pull(lanes, limits=PIECES)
    assert (pulled.jobs, pulled.pieces) == ([], [Piece("a", a.fence, 0)])
    clock.forward(0.1)
    await lanes.prefilled([Piece("a", a.fence, 400)])
    assert await ids(lanes, limits=PIECES) == ["b"]


async def test_a_higher_lanes_goes_between_and_a_fast_job_whole_and_at_once(lanes: Lanes) -> None:
    clock = await ready(lanes)
    a = await sent(lanes)
    await lanes.submit(job("f", prefill=5000, splits=True, user="f"))
    (f,) = (await pull(lanes, limits=PIECES)).jobs
    assert (f.id, f.upto, await load(lanes)) == ("f", 0, (2, 20, 400))
    clock.forward(0.1)
    n = await sent(lanes, "n", lane="normal")
    assert (n.upto, await load(lanes)) == (400, (3, 30, 800))
    clock.forward(0.1)
    await lanes.prefilled([Piece("a", a.fence, 400)])
    assert await further(lanes) == [Piece("n", n.fence, 700)]


async def test_another_workers_pull_tells_the_one_that_has_it(lanes: Lanes) -> None:
    clock = await ready(lanes)
    a = await sent(lanes)
    await lanes.renew("w", [], LEASE_S)
    clock.forward(0.1)
    assert await further(lanes, worker="other") == []
    _, (told,) = await lanes.controls("w", "0-0", 0.01)
    assert (told.kind, told.id, told.fence, told.upto) == ("piece", "a", a.fence, 700)


async def _renewed(lanes: Lanes, granted: Granted) -> Renewed:
    (renewed,) = await lanes.renew("w", [Held(granted.id, granted.fence, "b")], LEASE_S)
    return renewed


async def test_a_piece_whose_word_was_lost_is_heard_of_by_the_next_renewal(lanes: Lanes) -> None:
    clock = await ready(lanes)
    a = await sent(lanes, prefill=700)
    assert (await _renewed(lanes, a)).upto == 400
    clock.forward(0.1)
    await further(lanes, worker="other")
    assert await _renewed(lanes, a) == Renewed("ok", INBOX, 0, 0, 0)


async def test_what_is_told_twice_or_late_changes_nothing(lanes: Lanes) -> None:
    await ready(lanes)
    a = await sent(lanes)
    for upto in (400, 400, 100, 900):
        assert await lanes.prefilled([Piece("a", a.fence, upto)]) == 1
        assert (await carried(lanes))["had"] == "400"
    await lanes.prefilled([Piece("a", a.fence, 0)])
    assert await lanes.prefilled([Piece("a", a.fence, 400)]) == 0
    assert (await carried(lanes))["had"] == "1500"
    assert await further(lanes) == []


async def _error(lanes: Lanes, clock: Clock, a: Granted) -> None:
    assert await lanes.release("a", a.fence, 1, GivenBack("error")) == "waiting"


async def _drained(lanes: Lanes, clock: Clock, a: Granted) -> None:
    assert await lanes.release("a", a.fence, 1, GivenBack("drain")) == "waiting"


async def _unknown(lanes: Lanes, clock: Clock, a: Granted) -> None:
    assert (await lanes.recall("w", "b", [])).jobs == 1


async def _asked_for_again(lanes: Lanes, clock: Clock, a: Granted) -> None:
    assert (await lanes.requeue("a", a.fence, snapshot="", base="", spent=0, inbox=INBOX)).status == "queued"


async def _worker_died(lanes: Lanes, clock: Clock, a: Granted) -> None:
    """Its gateway is asked, and puts it back."""
    await pass_by(lanes, clock, LEASE_S)
    held = await lanes.place("a")
    assert held.state == "held"
    await _asked_for_again(lanes, clock, replace(a, fence=held.fence))


async def _store_died(lanes: Lanes, clock: Clock, a: Granted) -> None:
    await lanes.store.redis.delete(*(one.key for one in await lanes.leftovers()))
    await lanes.create_inbox(INBOX)
    past = Past(job=job("a", lane="slow", prefill=1500, splits=True), age_us=0, floor=a.fence)
    (restored,) = await lanes.restore([past], LEASE_S)
    assert restored.status == "restored"


@pytest.mark.parametrize("back", [_error, _drained, _unknown, _asked_for_again, _worker_died, _store_died])
async def test_a_job_that_goes_back_begins_anew(
    lanes: Lanes, back: Callable[[Lanes, Clock, Granted], Awaitable[None]]
) -> None:
    clock = await ready(lanes)
    await lanes.reap(LEASE_S)
    a = await sent(lanes)
    await lanes.prefilled([Piece("a", a.fence, 400)])
    clock.forward(0.1)
    assert await further(lanes) == [Piece("a", a.fence, 700)]
    await back(lanes, clock, a)
    assert await load(lanes) == (0, 0, 0)
    assert await lanes.prefilled([Piece("a", a.fence, 700)]) == 0
    clock.forward(0.1)
    (again,) = (await pull(lanes, limits=PIECES)).jobs
    assert (again.id, again.upto, await load(lanes)) == ("a", 400, (1, 10, 400))
    await lanes.settle("a", again.fence, 1, End("done"))
    assert await load(lanes) == (0, 0, 0)
    assert await is_quiet(lanes)


async def test_a_cancelled_one_is_read_no_further_once_its_worker_knows(lanes: Lanes) -> None:
    await ready(lanes)
    a = await sent(lanes)
    assert await lanes.cancel("a") == "running"
    assert (await _renewed(lanes, a)).status == "cancel"
    await lanes.settle("a", a.fence, 1, End("cancelled"))
    assert (await load(lanes), await further(lanes)) == ((0, 0, 0), [])
    assert await is_quiet(lanes)


async def test_one_whose_attempt_is_gone_on_with_after_a_restart_is_read_whole(lanes: Lanes) -> None:
    await ready(lanes)
    a = await sent(lanes)
    await lanes.store.redis.delete(*(one.key for one in await lanes.leftovers()))
    await lanes.create_inbox(INBOX)
    past = Past(
        job=job("a", lane="slow", prefill=1500, splits=True), age_us=0, floor=a.fence, backend="b", waiting=False
    )
    await lanes.restore([past], LEASE_S)
    assert await load(lanes) == (1, 10, 1500)
    adopted = await _renewed(lanes, a)
    assert (adopted.status, adopted.upto) == ("adopt", 0)
    assert await further(lanes) == []
    assert await lanes.prefilled([Piece("a", adopted.fence, 0)]) == 1
    assert await load(lanes) == (1, 10, 0)


async def test_a_back_end_that_reads_in_pieces_no_more_reads_the_rest_at_once(lanes: Lanes) -> None:
    clock = await ready(lanes)
    a = await sent(lanes)
    await lanes.prefilled([Piece("a", a.fence, 400)])
    assert await further(lanes, limits=Limits(slots=9)) == [Piece("a", a.fence, 0)]
    clock.forward(0.1)
    assert await further(lanes) == []
    await lanes.prefilled([Piece("a", a.fence, 0)])
    assert await load(lanes) == (1, 10, 0)


async def test_a_job_that_waits_for_a_prompt_under_way_goes_when_that_is_read(lanes: Lanes) -> None:
    clock = await ready(lanes)
    a = await sent(lanes, offset_us=9_000_000)
    await lanes.submit(job("n", lane="normal", prefill=600, user="n"))
    clock.forward(0.1)
    pulled = await pull(lanes, limits=AT_ONCE)
    assert (pulled.jobs, pulled.pieces) == ([], [Piece("a", a.fence, 700)])
    await lanes.prefilled([Piece("a", a.fence, 700)])
    assert await ids(lanes, limits=AT_ONCE) == ["n"]
