"""Jobs that wait for too long, on one timer for all that may wait equally long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from buffer.records import NewJob
from gateway.ending import Overdue


def job(id: str, wait_s: float) -> NewJob:
    return NewJob(id=id, model="m", lane="fast", user="u", inbox="", body=b"", timeout_us=round(wait_s * 1e6))


def waiting(**more: Any) -> Any:
    return SimpleNamespace(**{"started": None, "closed": False, **more})


async def test_those_end_that_wait_for_too_long_and_no_others() -> None:
    ended: list[str] = []

    def go_on(work: Callable[..., Any]) -> bool:
        assert isinstance(work, partial)
        ended.append(work.args[1])
        return True

    overdue = Overdue(go_on)
    pool: Any = None
    overdue.add(pool, job("long", 0.15), waiting())
    overdue.add(pool, job("first", 0.02), waiting())
    overdue.add(pool, job("started", 0.02), waiting(started="engine"))
    overdue.add(pool, job("left", 0.02), waiting(closed=True))
    overdue.add(pool, job("dropped", 0.02), waiting())
    overdue.drop(job("dropped", 0.02))
    overdue.drop(job("unknown", 0.5))
    await asyncio.sleep(0.01)
    overdue.add(pool, job("second", 0.02), waiting())
    await asyncio.sleep(0.2)
    assert ended == ["first", "second", "long"]
    overdue.add(pool, job("again", 0.02), waiting())
    await asyncio.sleep(0.1)
    assert ended[-1] == "again"
