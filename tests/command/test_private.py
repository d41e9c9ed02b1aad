"""The Redis of ``up``'s own."""

from __future__ import annotations

import asyncio
import os

from buffer.store import StoreUnavailable, open_store
from doublebuffer import private
from doublebuffer.private import private_redis


async def test_it_is_there_and_gone_with_the_command() -> None:
    async with private_redis() as url:
        assert url is not None
        store = await open_store(url)
        await store.ping()
        await store.aclose()
        folder = os.path.dirname(url.removeprefix("unix://"))
        assert os.stat(folder).st_mode & 0o077 == 0
    assert not await asyncio.to_thread(os.path.exists, folder)


async def test_killed_it_is_started_again(monkeypatch) -> None:
    monkeypatch.setattr(private, "AGAIN_S", 0.05)
    async with private_redis() as url:
        assert url is not None
        store = await open_store(url)
        (told,) = await store.exchange([("INFO", "server")])
        await _kill(told["process_id"])
        async with asyncio.timeout(10):
            while True:
                try:
                    (again,) = await store.exchange([("INFO", "server")], patient=True)
                except StoreUnavailable:
                    continue
                if again["process_id"] != told["process_id"]:
                    break
        await store.aclose()


async def _kill(pid: int) -> None:
    process = await asyncio.create_subprocess_exec("kill", "-9", str(pid))
    await process.wait()


async def test_without_one_there_is_none() -> None:
    async with private_redis(["no-such-redis"]) as url:
        assert url is None
