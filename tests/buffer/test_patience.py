from __future__ import annotations

import asyncio

import pytest

from buffer.timing import Patience


async def ended_after(patience: Patience, result: asyncio.Future[str]) -> tuple[str, float]:
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    try:
        told = await patience.wait(result)
    except TimeoutError:
        told = "late"
    return told, loop.time() - began_at


async def test_each_wait_has_all_of_its_time() -> None:
    patience, loop = Patience(0.2), asyncio.get_running_loop()
    waits = []
    for _ in range(3):
        waits.append(asyncio.create_task(ended_after(patience, loop.create_future())))
        await asyncio.sleep(0.05)
    for told, passed_s in await asyncio.gather(*waits):
        assert told == "late"
        assert 0.19 < passed_s < 0.5


async def test_what_came_in_time_is_told_and_one_that_nobody_waits_for_any_more_is_left_alone() -> None:
    patience, loop = Patience(0.1), asyncio.get_running_loop()
    came: asyncio.Future[str] = loop.create_future()
    left: asyncio.Future[str] = loop.create_future()
    coming, leaving = (asyncio.create_task(ended_after(patience, one)) for one in (came, left))
    await asyncio.sleep(0)
    came.set_result("here")
    leaving.cancel()
    assert (await coming)[0] == "here"
    with pytest.raises(asyncio.CancelledError):
        await leaving
    # Its timer finds nothing to do, and the next wait begins another.
    await asyncio.sleep(0.15)
    told, passed_s = await ended_after(patience, loop.create_future())
    assert told == "late"
    assert passed_s < 0.4
