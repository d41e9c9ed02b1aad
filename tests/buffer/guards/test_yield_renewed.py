"""renew: what a worker did not hear of background work that is to give its place to people."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Granted, Held
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.test_yield import ONE, quiet_ones
from tests.buffer.jobs import LEASE_S, job, pull

BACKGROUND = "if j and j.lane == 'background' and result[1] == 'ok' then"


async def renewed(lanes: Lanes, granted: Granted) -> int:
    """Whether a renewal says that it is to give its place back."""
    (one,) = await lanes.renew("w", [Held(granted.id, granted.fence, "b")], LEASE_S)
    return one.yields


@guard("renew", BACKGROUND, "if false then")
@guard("renew", "result[6] = now - tonumber", "result[6] = lease < now - tonumber")
async def test_a_renewal_carries_it_where_the_word_was_lost(lanes: Lanes) -> None:
    clock, granted = await quiet_ones(lanes, "quiet")
    assert await renewed(lanes, granted["quiet"]) == 0
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=ONE)
    await lanes.store.redis.delete(lanes.keys.ctl("w"))
    clock.forward(1)
    assert [await renewed(lanes, granted["quiet"]) for _ in range(2)] == [1, 1]
    clock.forward(LEASE_S)
    assert await renewed(lanes, granted["quiet"]) == 0, "nobody waits for it any more, or he would have asked again"


@guard("renew", BACKGROUND, "if j and j.lane == 'background' then")
async def test_a_renewal_asks_nothing_of_one_that_is_to_be_closed(lanes: Lanes) -> None:
    _, granted = await quiet_ones(lanes, "quiet")
    await lanes.submit(job("a"))
    await pull(lanes, 0, limits=ONE)
    await lanes.cancel("quiet")
    assert await renewed(lanes, granted["quiet"]) == 0
