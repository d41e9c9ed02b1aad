"""Clients of two gateways that ask the same, each in its own form."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from buffer.job import End, Failure
from tests.coming_back.rig import BODIES, Gate, Gates
from tests.gateway.rig import PLAIN, until

CHAT, OLLAMA = "/v1/chat/completions", "/api/chat"
COLD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"temperature": 0},
    "/v1/responses": {"temperature": 0},
    "/api/chat": {"options": {"temperature": 0}},
    "/api/generate": {"options": {"temperature": 0}},
    "/v1/completions": {"temperature": 0},
}
OUT = End("failed", Failure("No luck.", 502))


def asked(path: str, *, stream: bool = True, **more: Any) -> dict[str, Any]:
    return {"model": PLAIN, "stream": stream, **BODIES[path], **COLD[path], **more}


def post(gate: Gate, path: str, *, headers: dict[str, str] | None = None, **more: Any) -> asyncio.Task[httpx.Response]:
    gate.asked += 1
    return asyncio.create_task(gate.client.post(path, json=asked(path, **more), headers=headers))


async def flights(g: Gates) -> list[dict[str, str]]:
    """What the questions under way stand for."""
    redis = g.lanes.store.redis
    # A scan may give a key twice.
    keys = {key async for key in redis.scan_iter(match=f"{g.lanes.store.prefix}:*:flight:*", count=1000)}
    return [{k.decode(): v.decode() for k, v in (await redis.hgetall(key)).items()} for key in keys]


async def counted(g: Gates, count: int) -> None:
    """Waits until so many clients are counted for an answer; some of them may still be looking for the job."""

    async def so() -> bool:
        return await _counted(g) == count

    await until(so)


async def passengers(g: Gates, count: int) -> None:
    """Waits until so many clients wait for an answer, and each request sent by ``post`` has found what it waits for."""

    async def so() -> bool:
        return await _counted(g) == count and all(_looked(gate) >= gate.asked for gate in g.gates)

    await until(so)


async def _counted(g: Gates) -> int:
    return sum(name.startswith("client:") for flight in await flights(g) for name in flight)


def _looked(gate: Gate) -> float:
    """How many requests know by now whether they have a job of their own."""
    return sum(gate.metric(f'cache_total{{result="{result}"}}') for result in ("hit", "miss", "bypass", "joined"))


def text(path: str, reply: httpx.Response) -> str:
    """The words of an answer in whatever form it came."""
    if "stream" not in reply.headers["content-type"] and "ndjson" not in reply.headers["content-type"]:
        return _words(path, reply.json())
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line[:1] == "{" or line[:6] == "data: "]
    return "".join(_words(path, json.loads(line)) for line in lines if line != "[DONE]")


def _words(path: str, data: dict[str, Any]) -> str:
    match path:
        case "/v1/chat/completions":
            choices = data["choices"]
            return "".join((one.get("delta") or one.get("message") or {}).get("content") or "" for one in choices)
        case "/v1/responses":
            if "output" in data:
                return "".join(part["text"] for item in data["output"] for part in item["content"])
            return str(data["delta"]) if data["type"] == "response.output_text.delta" else ""
        case "/api/chat":
            return str(data["message"]["content"])
        case _:
            return str(data["response"])


async def until_none(g: Gates) -> None:
    """Waits until no question is being answered."""

    async def so() -> bool:
        return await flights(g) == []

    await until(so)


async def cancelled(g: Gates, id: str) -> bool:
    """Whether a job's worker has been told to stop."""
    return bool(await g.lanes.store.redis.hget(g.lanes.keys.job(id), "cancel"))
