"""Requests that come with one Idempotency-Key."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from tests.coming_back.rig import Gate, Gates, body
from tests.coming_back.test_requests import CHAT
from tests.gateway.rig import until

KEY = {"Idempotency-Key": "8e03978e-40d5-43dd-bc93-6894a57f9324"}


def post(gate: Gate, path: str = CHAT, **more: Any) -> asyncio.Task[httpx.Response]:
    headers = KEY | more.pop("headers", {})
    return asyncio.create_task(gate.client.post(path, json=body(path, **more), headers=headers))


async def claims(g: Gates) -> list[dict[str, str]]:
    """What the keys stand for."""
    redis = g.lanes.store.redis
    keys = [key async for key in redis.scan_iter(match=f"{g.lanes.store.prefix}:claimed:*")]
    return [{k.decode(): v.decode() for k, v in (await redis.hgetall(key)).items()} for key in keys]


async def clients(g: Gates, count: int) -> None:
    """Waits until so many clients wait under a key."""

    async def so() -> bool:
        return sum(name.startswith("client:") for claim in await claims(g) for name in claim) == count

    await until(so)
