"""The peer whose client is a library: its load comes from a process of its own, in its own environment."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.cost.load import Ask, Heard
from bench.cost.processes import Site

LOAD_CORE = 1


async def rq_put(site: Site, python: str, redis_url: str) -> Callable[[Ask], Awaitable[Heard]]:
    """What puts load on openai-rq."""
    script = Path(__file__).with_name("rq_client.py")
    client = await site.talk([python, str(script), redis_url], core=LOAD_CORE)
    assert client.stdin is not None
    assert client.stdout is not None
    to, back = client.stdin, client.stdout

    async def load(ask: Ask) -> Heard:
        to.write(json.dumps(ask.plain()).encode() + b"\n")
        await to.drain()
        line = await back.readline()
        return Heard(**json.loads(line))

    return load
