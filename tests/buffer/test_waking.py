"""Waking without polling, and what those who look on are told."""

from __future__ import annotations

import asyncio

from buffer.lanes import Lanes
from tests.buffer.jobs import (
    INBOX,
    at_home,
    job,
    pull,
    ready,
)
from tests.rig.doorbell import Doorbell

W = 60_000_000


async def test_an_idle_worker_wakes_at_a_submit(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    bell = await Doorbell.now(lanes)
    await pull(lanes)
    assert not await bell.rings(0.05)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(bell.rings())
        await asyncio.sleep(0)
        await lanes.submit(job("a"))
        async with asyncio.timeout(2):
            assert await waiting


async def test_a_submit_between_pull_and_waiting_is_not_missed(lanes: Lanes) -> None:
    await at_home(lanes)
    bell = await Doorbell.now(lanes)
    await pull(lanes)
    await lanes.submit(job("a"))
    async with asyncio.timeout(2):
        assert await bell.rings()


async def test_the_bell_wakes_too(lanes: Lanes) -> None:
    bell = await Doorbell.now(lanes)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(bell.rings())
        await asyncio.sleep(0)
        await lanes.ring_bell()
        async with asyncio.timeout(2):
            assert await waiting


async def test_counts_for_the_window_and_the_metrics(lanes: Lanes) -> None:
    clock = await ready(lanes)
    assert (await lanes.peek(["m"])).waiting == 0
    await lanes.submit(job("back", lane="background", model="n"))
    arrived = clock.now
    clock.forward(3)
    await lanes.submit(job("a", lane="slow"))
    await lanes.submit(job("b"))
    clock.forward(1)
    peeked = await lanes.peek(["m", "n"])
    assert (peeked.waiting, peeked.oldest_arr_us, peeked.now_us) == (3, arrived, clock.now)
    assert (await lanes.peek(["m"])).oldest_arr_us == arrived + 3_000_000
    depths = await lanes.depths()
    assert {lane: depth.waiting for lane, depth in depths.items()} == {
        "thinking": 0,
        "fast": 1,
        "normal": 0,
        "slow": 1,
        "background": 1,
    }
    assert depths["background"].oldest_wait_us == 4_000_000


async def test_the_place_in_the_queue(lanes: Lanes) -> None:
    await ready(lanes)
    for i, lane in enumerate(("slow", "fast", "background")):
        await lanes.submit(job(lane, lane=lane, offset_us=10 - i))
    assert (await lanes.place("slow")).ahead == 1
    place = await lanes.place("fast")
    assert (place.state, place.ahead, place.lane, place.backend) == ("waiting", 0, "fast", "")
    assert (await lanes.place("none")).state == "gone"
    await pull(lanes)
    assert (await lanes.place("fast")).backend == "b"
