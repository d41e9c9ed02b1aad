"""Answers that outlive their clients: what goes wrong with one costs that one."""

from __future__ import annotations

import asyncio

import pytest

from gateway.answering import Outliving


async def test_a_defect_in_one_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    outliving, done = Outliving(), asyncio.Event()

    async def broken() -> None:
        async with asyncio.TaskGroup():
            raise ZeroDivisionError("a secret")

    async def good() -> None:
        await asyncio.sleep(0.05)
        done.set()

    async with asyncio.TaskGroup() as group:
        running = group.create_task(outliving.run())
        await asyncio.sleep(0)
        assert outliving.go_on(broken)
        assert outliving.go_on(good)
        await done.wait()
        assert not running.done()
        running.cancel()
    assert "ZeroDivisionError" in caplog.text
    assert "a secret" not in caplog.text
