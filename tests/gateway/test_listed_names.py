"""A job carries the name that model lists have for its model, however its client spelled it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gateway.rig import MODEL, rig, until

ASKED = "Qwen3-0.6B"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
        ("/api/generate", {"prompt": "Hello"}),
        ("/api/embed", {"input": "Hello"}),
    ],
)
async def test_it_is_kept_with_the_job(path: str, asked: dict[str, Any]) -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        redis = r.lanes.store.redis

        async def names() -> list[bytes | None]:
            keys = [key async for key in redis.scan_iter(match="*:job:*")]
            return [await redis.hget(key, "name") for key in keys]

        async def there() -> bool:
            return len(await names()) == 1

        asking = group.create_task(r.client.post(path, json={"model": ASKED, **asked}))
        await until(there)
        assert await names() == [MODEL.encode()]
        asking.cancel()
