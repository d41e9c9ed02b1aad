"""Where something may have been left that nobody is to find: every key of the store, every log, and what engines were
sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio

from tests.acceptance.site import Site
from tests.cases.rig import Bench
from tests.rig.connection import Recorded
from tests.rig.scripted import Scripted


async def stored(site: Site) -> dict[str, tuple[bytes, int]]:
    """All that the store holds: key → what it says, and how many seconds it lives (-1: for ever)."""
    client = redis.asyncio.Redis(port=site.redis.port)
    read: dict[str, Any] = {
        "string": client.get,
        "hash": client.hgetall,
        "set": client.smembers,
        "list": lambda key: client.lrange(key, 0, -1),
        "zset": lambda key: client.zrange(key, 0, -1),
        "stream": client.xrange,
    }
    found = {}
    try:
        async for key in client.scan_iter(count=1000):
            told = await client.type(key)
            kind = told.decode() if isinstance(told, bytes) else told
            if kind in read:
                value = await read[kind](key)
                found[key.decode()] = (key + repr(value).encode(), await client.ttl(key))
    finally:
        await client.aclose()
    return found


async def holding(site: Site, words: Iterable[str]) -> dict[str, int]:
    """The keys that hold any of the words, and how long they will."""
    wanted = [word.encode() for word in words]
    kept = await stored(site)
    return {key: ttl_s for key, (said, ttl_s) in kept.items() if any(word in said for word in wanted)}


def logged(site: Site) -> str:
    """What all processes have written, to standard output too."""
    processes = (site.gateway, *site.workers)
    return "".join(process.log + process.out for process in processes)


@dataclass
class Overheard:
    """Every request that engines were sent, whatever it was for."""

    requests: list[Recorded] = field(default_factory=list)

    def listen(self, *engines: Scripted) -> None:
        for engine in engines:
            engine.judge = self._note

    def _note(self, _: str, request: Recorded) -> None:
        self.requests.append(request)

    def said(self) -> bytes:
        return b"\n".join(
            b" ".join([one.method.encode(), one.path.encode(), repr(one.headers).encode(), one.body])
            for one in self.requests
        )

    def of(self, *paths: str) -> list[Recorded]:
        return [one for one in self.requests if one.path.partition("?")[0] in paths]


async def metrics(bench: Bench) -> str:
    headers = {"authorization": f"Bearer {bench.key}"} if bench.key else {}
    return (await bench.client.get("/metrics", headers=headers)).text
