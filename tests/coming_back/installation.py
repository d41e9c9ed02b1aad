"""Two gateways and two workers as processes, before an engine that counts slowly and can go on from any word."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import redis.asyncio

from tests.acceptance.site import backend
from tests.coming_back.rig import Event, Reader
from tests.rig.connection import Recorded
from tests.rig.processes import Process, run_command
from tests.rig.redis_server import RedisServer, run_redis
from tests.rig.script import DONE, Piece, Sleep, finish, role, usage
from tests.rig.scripted import Scripted

MODEL = "m-oai"
WORDS = 40
EVERY_S = 0.08
LEASE_S = 3.0
TEXT = "".join(f"w{number} " for number in range(WORDS))


async def counting(request: Recorded) -> AsyncIterator[Piece]:
    """Says its words one after the other, from where the conversation's last message ends."""
    last = request.json()["messages"][-1]
    said = last["content"] if last["role"] == "assistant" else ""
    assert TEXT.startswith(said), said
    words = re.findall(r" ?\S+ ?", TEXT[len(said) :])
    yield role()
    for word in words:
        yield Sleep(EVERY_S)
        yield word
    yield finish("stop")
    yield usage(7, len(words))
    yield DONE


@dataclass
class Installation:
    gateways: list[Process]
    workers: list[Process]
    engine: Scripted
    redis: RedisServer

    def client(self, number: int) -> httpx.AsyncClient:
        """A client of one of the gateways."""
        return httpx.AsyncClient(base_url=self.gateways[number].url, trust_env=False, timeout=30)

    async def worker_of(self, id: str) -> Process:
        """The worker that has a job."""
        client = redis.asyncio.Redis(port=self.redis.port, decode_responses=True)
        try:
            name = str(await client.hget(f"doublebuffer:{{default}}:job:{id}", "worker"))
        finally:
            await client.aclose()
        (found,) = [one for one in self.workers if one.exit_code is None and _mentions(name, one.pid)]
        return found


def _mentions(name: str, pid: int) -> bool:
    return str(pid) in name.replace(":", "-").split("-")


@contextlib.asynccontextmanager
async def installation() -> AsyncIterator[Installation]:
    async with contextlib.AsyncExitStack() as stack:
        engine = await stack.enter_async_context(Scripted("openai", kind="vllm", models=[MODEL], script=counting))
        server = stack.enter_context(run_redis())
        environment = {
            "REDIS_URL": server.url,
            "DOUBLEBUFFER_BACKENDS": json.dumps([backend("e", "vllm", engine.url)]),
            "DOUBLEBUFFER_LEASE_SECONDS": str(LEASE_S),
            "DOUBLEBUFFER_WINDOW_MS": "0",
        }
        commands = [("worker",), ("worker",), ("gateway", "--port", "0"), ("gateway", "--port", "0")]
        made = await asyncio.gather(
            *(stack.enter_async_context(run_command(*command, environment=environment)) for command in commands)
        )
        await asyncio.gather(*(gateway.is_healthy("/health/ready") for gateway in made[2:]))
        yield Installation(made[2:], made[:2], engine, server)


async def numbers(reader: Reader, until: int) -> list[Event]:
    """Reads on to a word."""
    found: list[Event] = []
    while f"w{until} " not in said(found):
        found.append(await reader.next())
    return found


def said(found: list[Event]) -> str:
    chunks: list[dict[str, Any]] = [event.json() for event in found if event.data != "[DONE]"]
    assert not any("error" in chunk for chunk in chunks), chunks[-1]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def kill(process: Process) -> None:
    """As ``kill -9`` does."""
    os.kill(process.pid, 9)
