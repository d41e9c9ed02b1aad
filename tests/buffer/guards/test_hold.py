"""hold: one worker decides about a spare at a time, and what it notes is its own."""

from __future__ import annotations

from buffer.holding import Held, hold
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import swept

LEASE_S = 10.0
FREE = "if owner ~= me and till <= now and lease > 0 then"
NOTE = "if ARGV[7] ~= '' and tonumber(ARGV[6]) == fence then"


async def want(lanes: Lanes, worker: str, *, fence: int = 0, stand: bytes = b"") -> Held:
    return await hold(lanes, "s", worker, lease_s=LEASE_S, fence=fence, stand=stand)


@guard("hold", " and till <= now", "", where=FREE)
async def test_while_one_decides_no_other_does(lanes: Lanes) -> None:
    await swept(lanes)
    assert (await want(lanes, "w1")).mine
    assert not (await want(lanes, "w2")).mine


@guard("hold", "if owner == me then", "if false then")
async def test_a_word_with_the_store_keeps_it(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await want(lanes, "w1")
    clock.forward(LEASE_S - 1)
    await want(lanes, "w1")
    clock.forward(LEASE_S - 1)
    assert not (await want(lanes, "w2")).mine


@guard("hold", "if owner == me then", "if true then")
async def test_another_s_word_does_not_keep_it(lanes: Lanes) -> None:
    clock = await swept(lanes)
    await want(lanes, "w1")
    clock.forward(LEASE_S - 1)
    await want(lanes, "w2")
    clock.forward(2)
    assert (await want(lanes, "w2")).mine


@guard("hold", "owner ~= me and ", "", where=FREE)
async def test_who_comes_back_before_another_has_come_goes_on(lanes: Lanes) -> None:
    clock = await swept(lanes)
    first = await want(lanes, "w1")
    clock.forward(LEASE_S + 1)
    assert await want(lanes, "w1") == first


@guard("hold", " and lease > 0", "", where=FREE)
async def test_who_does_not_want_it_changes_nothing(lanes: Lanes) -> None:
    clock = await swept(lanes)
    first = await want(lanes, "w1")
    clock.forward(LEASE_S + 1)
    assert not (await hold(lanes, "s", "w2", lease_s=0)).mine
    assert await want(lanes, "w1") == first


@guard("hold", "math.max(fence, now)", "fence")
async def test_a_store_that_came_back_empty_gives_a_later_fence(lanes: Lanes) -> None:
    clock = await swept(lanes)
    first = await want(lanes, "w1")
    await lanes.store.redis.delete(lanes.keys.spare("s"))
    clock.forward(1)
    assert (await want(lanes, "w1")).fence > first.fence


@guard("hold", " and tonumber(ARGV[6]) == fence", "", where=NOTE)
async def test_what_an_older_fence_notes_is_not_taken(lanes: Lanes) -> None:
    clock = await swept(lanes)
    old = await want(lanes, "w1")
    clock.forward(LEASE_S + 1)
    other = await want(lanes, "w2")
    await want(lanes, "w2", fence=other.fence, stand=b"two")
    clock.forward(LEASE_S + 1)
    back = await want(lanes, "w1", fence=old.fence, stand=b"one")
    assert back.mine
    assert back.stand == b"two"
    assert (await want(lanes, "w1", fence=back.fence, stand=b"one")).stand == b"one"


@guard("hold", "ARGV[7] ~= '' and ", "", where=NOTE)
async def test_a_look_alone_leaves_what_was_noted(lanes: Lanes) -> None:
    await swept(lanes)
    held = await want(lanes, "w1")
    await want(lanes, "w1", fence=held.fence, stand=b"up")
    assert (await want(lanes, "w1", fence=held.fence)).stand == b"up"


async def test_given_up_it_is_free_at_once(lanes: Lanes) -> None:
    await swept(lanes)
    await want(lanes, "w1")
    assert not (await hold(lanes, "s", "w1", lease_s=0)).mine
    assert (await want(lanes, "w2")).mine
