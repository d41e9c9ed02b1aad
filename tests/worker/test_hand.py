from __future__ import annotations

import asyncio
from typing import cast

import pytest

from buffer.records import Granted
from worker.engine import Engine
from worker.hand import Hand, StoppedError


class _Clock:
    def clock(self) -> float:
        return 0.0


class _Job:
    id = "job"
    fence = 1
    upto = 0


def hand(before: Hand | None = None) -> Hand:
    return Hand(cast(Granted, _Job()), cast(Engine, _Clock()), before)


async def test_stopping_breaks_off_what_may_be_broken_off_and_the_task_goes_on() -> None:
    mine, inside = hand(), asyncio.Event()

    async def attempt() -> str:
        try:
            with mine.stoppable():
                inside.set()
                await asyncio.Event().wait()
        except StoppedError:
            await asyncio.sleep(0)
            return f"settled {mine.why}"
        return "never"

    task = asyncio.create_task(attempt())
    await inside.wait()
    mine.stop("cancel")
    mine.stop("drain")
    assert await task == "settled cancel"
    assert task.cancelling() == 0


async def test_stopped_before_it_began() -> None:
    mine = hand()
    mine.stop("drain")
    mine.stop("lost")
    with pytest.raises(StoppedError), mine.stoppable():
        raise AssertionError("it must not begin")
    assert mine.why == "lost"


async def test_a_cancellation_from_elsewhere_goes_through_also_beside_a_stop() -> None:
    for stop in (False, True):
        mine, inside = hand(), asyncio.Event()

        async def attempt(mine: Hand = mine, inside: asyncio.Event = inside) -> None:
            try:
                with mine.stoppable():
                    inside.set()
                    await asyncio.Event().wait()
            except StoppedError:
                await asyncio.Event().wait()

        task = asyncio.create_task(attempt())
        await inside.wait()
        if stop:
            mine.stop("cancel")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_outside_of_it_nothing_is_broken_off() -> None:
    mine = hand()
    with mine.stoppable():
        pass
    mine.stop("cancel")
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


def test_of_several_attempts_at_a_job_the_first_is_written() -> None:
    one = hand()
    other = hand(one)
    assert other.line() == [other, one]
    other.before = None
    assert other.line() == [other]
