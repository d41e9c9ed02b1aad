"""What is left when all have gone: places, leases and queues in Redis, engines at work, keys for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import redis.asyncio

FIXED = {"lease", "backends", "bell", "dead", "models", "inputs", "inputs:background"}
FIXED_PREFIXES = ("jobs:", "wait:", "turn:", "due:", "load:")
"""Names that may live for ever: a fixed set, and all but few empty themselves."""
EMPTY_ZSETS = ("wait:", "turn:", "due:", "lease")


@dataclass(slots=True)
class Leftovers:
    slots: list[str] = field(default_factory=list)
    lasting: list[str] = field(default_factory=list)
    dead: int = 0
    """Dead letters."""
    quiet_s: float = 0.0
    """How long it took until nothing was left, or how long was waited."""


async def lasting_keys(port: int) -> list[str]:
    """Names of keys without a lifetime that should have one."""
    async with redis.asyncio.Redis(port=port) as client:
        return await _lasting(client)


async def _lasting(client: Any) -> list[str]:
    names = [key.decode() async for key in client.scan_iter(count=1000)]
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.ttl(name)
    pairs = zip(names, await pipe.execute(), strict=True)
    return [name for name, ttl in pairs if ttl == -1 and not _fixed(name.partition("}:")[2])]


def _fixed(name: str) -> bool:
    return name in FIXED or name.startswith(FIXED_PREFIXES)


async def look(port: int, engines: Sequence[str], *, within_s: float) -> Leftovers:
    """Waits until nothing is left, or tells what there still is. ``engines``: addresses of all back ends."""
    began = time.monotonic()
    async with redis.asyncio.Redis(port=port) as client:
        while True:
            slots = await _held(client) + await _busy(engines)
            waited_s = time.monotonic() - began
            if not slots or waited_s > within_s:
                break
            await asyncio.sleep(0.1)
        dead = sum([await client.xlen(key) async for key in client.scan_iter("*}:dead")])
        return Leftovers(slots, await _lasting(client), dead, waited_s)


async def _held(client: Any) -> list[str]:
    found = []
    async for key in client.scan_iter(count=1000):
        name = key.decode().partition("}:")[2]
        if name.startswith("jobs:"):
            found += [f"{name} holds {fields.get(b'id', b'').decode()}" for _, fields in await client.xrange(key)]
        elif name.startswith("load:"):
            found += [f"{name} carries {id.decode()}" for id in await client.hkeys(key)]
        elif name.startswith(EMPTY_ZSETS):
            found += [f"{name} holds {member.decode()}" for member in await client.zrange(key, 0, -1)]
    return found


async def _busy(engines: Sequence[str]) -> list[str]:
    found = []
    async with aiohttp.ClientSession() as session:
        for url in engines:
            try:
                async with session.get(f"{url}/_busy") as response:
                    found += [f"{url} works for {marker}" for marker in (await response.json())["busy"]]
            except aiohttp.ClientError as error:
                found.append(f"{url} cannot be asked: {error}")
    return found
