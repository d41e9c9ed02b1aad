"""The queue's limit counts inputs, whatever way a request leaves the queue."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import GivenBack, NewJob
from tests.buffer.jobs import LEASE_S, MANY, ids, job, pull, ready


def many(id: str, inputs: int, **fields: object) -> NewJob:
    return job(id, lane=fields.pop("lane", "normal"), kv=inputs, inputs=inputs, **fields)


async def waiting(lanes: Lanes, lane: str = "normal") -> int:
    """Inputs that wait, as a submit that is too large finds them."""
    refused = await lanes.submit(many("probe", 10**6, lane=lane, user="another"), limit=1)
    assert refused.status == "full"
    return refused.waiting


async def test_up_to_the_limit_and_not_beyond(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await lanes.submit(many("a", 6), limit=10)).waiting == 6
    assert (await lanes.submit(many("b", 1), limit=10)).waiting == 7
    refused = await lanes.submit(many("c", 4), limit=10)
    assert (refused.status, refused.waiting) == ("full", 7)
    assert (await lanes.submit(many("d", 3), limit=10)).status == "new"
    assert (await lanes.submit(many("a", 6), limit=10)).status == "known"
    assert await waiting(lanes) == 10


async def test_inputs_leave_with_their_job_and_come_back_with_it(lanes: Lanes) -> None:
    clock = await ready(lanes)
    for id in ("pulled", "cancelled", "expired"):
        await lanes.submit(many(id, 5, timeout_us=60_000_000 if id == "expired" else 900_000_000))
    assert await waiting(lanes) == 15
    assert await lanes.cancel("cancelled") == "cancelled"
    assert await waiting(lanes) == 10
    (granted,) = (await pull(lanes, want=1)).jobs
    assert await waiting(lanes) == 5
    assert await lanes.release(granted.id, granted.fence, 1, GivenBack("error")) == "waiting"
    assert await waiting(lanes) == 10
    clock.forward(61)
    assert await ids(lanes, 2) == ["pulled"]
    assert await waiting(lanes) == 0
    # Taken over from a worker that fell silent, and put back by its gateway.
    for _ in range(8):
        clock.forward(LEASE_S / 4)
        await lanes.reap(LEASE_S, hold_s=600)
    place = await lanes.place("pulled")
    assert place.state == "held"
    assert await waiting(lanes) == 0
    await lanes.requeue("pulled", place.fence, snapshot="", base="", spent=0, inbox="gate:1")
    assert await waiting(lanes) == 5
    await lanes.cancel("pulled")
    assert await waiting(lanes) == 0


async def test_background_has_a_limit_of_its_own(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(many("a", 5))
    await lanes.submit(many("b", 7, lane="background"))
    assert (await waiting(lanes), await waiting(lanes, "background")) == (5, 7)
    await lanes.cancel("a")
    await lanes.cancel("b")
    assert (await waiting(lanes), await waiting(lanes, "background")) == (0, 0)


async def test_what_a_lost_record_left_behind_counts_no_longer_than_the_queue_is_in_use(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(many("a", 5))
    await lanes.store.redis.delete(lanes.keys.job("a"))
    await lanes.pull("w", "b", ["m"], want=1, limits=MANY, lease_s=LEASE_S)
    await lanes.submit(many("b", 2))
    assert await waiting(lanes) == 2


async def test_chats_are_counted_by_jobs(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await lanes.submit(job("a", kv=4000), limit=2)).waiting == 1
    assert (await lanes.submit(job("b", kv=4000), limit=2)).waiting == 2
    assert (await lanes.submit(job("c"), limit=2)).status == "full"


async def test_answers_that_were_read_can_go_at_once(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(many("a", 5))
    await lanes.submit(many("b", 5))
    await lanes.forget(["a", "no-such-job"])
    assert await lanes.reply("a") == []
    assert len(await lanes.reply("b")) == 1
