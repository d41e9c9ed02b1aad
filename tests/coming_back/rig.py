"""Gateways side by side over one store, on real servers, and a worker in the test's own hands behind them."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from buffer.lanes import Lanes
from buffer.replies import ReplyWriter
from buffer.settings import Settings
from buffer.store import open_store
from buffer.telemetry import Telemetry
from gateway.app import create_app
from gateway.delivery import Timing
from tests.gateway.rig import MODEL, PROMPT, Hands, served, until

DETACH = {"X-Doublebuffer-Detach": "true"}


@dataclass
class Gate:
    """One gateway."""

    port: int
    client: httpx.AsyncClient
    telemetry: Telemetry
    end_answers: Callable[[], Awaitable[None]]
    """The last thing before it stops."""
    asked: int = 0
    """Requests that ``tests.cache.asking.post`` has sent there."""

    def metric(self, line: str) -> float:
        for text in self.telemetry.exposition(None).decode().splitlines():
            if text.startswith(f"doublebuffer_{line} "):
                return float(text.rpartition(" ")[2])
        return 0.0


@dataclass
class Gates:
    gates: list[Gate]
    hands: Hands
    lanes: Lanes

    @property
    def one(self) -> Gate:
        return self.gates[0]

    @property
    def two(self) -> Gate:
        return self.gates[-1]

    async def state(self, id: str, **fields: Any) -> dict[str, Any]:
        """How a request stands, once these fields are so."""
        found: dict[str, Any] = {}

        async def so() -> bool:
            nonlocal found
            found = (await self.two.client.get(f"/v1/requests/{id}")).json()
            return all(found.get(name) == value for name, value in fields.items())

        await until(so)
        return found

    async def waiting(self, count: int) -> None:
        async def enough() -> bool:
            return sum(depth.waiting for depth in (await self.lanes.depths()).values()) == count

        await until(enough)


@asynccontextmanager
async def gates(
    redis_url: str | None, count: int = 2, *, timing: Timing | None = None, **settings: Any
) -> AsyncIterator[Gates]:
    """``redis_url`` None: all over one embedded store; else each over a connection of its own."""
    prefix = f"t-{secrets.token_hex(6)}"
    async with AsyncExitStack() as stack:
        store = await open_store(redis_url, prefix=prefix)
        stack.push_async_callback(store.aclose)
        lanes = Lanes(store)
        hands = Hands(store, lanes, ReplyWriter(lanes))
        await hands.show()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        flusher = group.create_task(hands.replies.run())
        made: list[Gate] = []
        for _ in range(count):
            own = store
            if redis_url is not None:
                own = await open_store(redis_url, prefix=prefix)
                stack.push_async_callback(own.aclose)
            telemetry = Telemetry()
            app = create_app(Settings(**settings), own, telemetry=telemetry, timing=timing)
            port = await stack.enter_async_context(served(app))
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20)
            made.append(Gate(port, await stack.enter_async_context(client), telemetry, app.end_answers))
        yield Gates(made, hands, lanes)
        flusher.cancel()


@dataclass
class Event:
    """One event of a stream: its id, empty if it has none, and its data."""

    id: str
    data: str
    name: str = ""

    def json(self) -> Any:
        return json.loads(self.data)


def events(body: str) -> list[Event]:
    """The events of a whole stream, comments apart."""
    assert body.endswith("\n\n") or not body
    found = []
    for block in body.split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        assert set(fields) <= {"id", "event", "data"}, block
        found.append(Event(fields.get("id", ""), fields["data"], fields.get("event", "")))
    return found


class Reader:
    """A client that reads a stream event by event, and may leave in the middle."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._blocks = self._split()

    async def _split(self) -> AsyncIterator[str]:
        rest = ""
        async for text in self.response.aiter_text():
            *blocks, rest = (rest + text).split("\n\n")
            for block in blocks:
                yield block + "\n\n"

    async def next(self) -> Event:
        """The next event."""
        async with asyncio.timeout(10):
            async for block in self._blocks:
                if found := events(block):
                    return found[0]
        raise AssertionError("the stream has ended")

    async def rest(self, *, within_s: float = 15) -> list[Event]:
        async with asyncio.timeout(within_s):
            return [event async for block in self._blocks for event in events(block)]


@asynccontextmanager
async def reading(gate: Gate, id: str, after: str = "") -> AsyncIterator[Reader]:
    """Reads the answer to a request, from behind an event's id."""
    headers = {"Last-Event-ID": after} if after else {}
    async with gate.client.stream("GET", f"/v1/requests/{id}/stream", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream"
        yield Reader(response)


async def told(gate: Gate, id: str, after: str = "") -> list[Event]:
    async with reading(gate, id, after) as reader:
        return await reader.rest()


BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": PROMPT},
    "/v1/completions": {"prompt": "Hello"},
    "/v1/responses": {"input": "Hello"},
    "/v1/messages": {"messages": PROMPT, "max_tokens": 100},
    "/api/chat": {"messages": PROMPT},
    "/api/generate": {"prompt": "Hello"},
}


EVERYWHERE = [
    *((path, "embedded") for path in BODIES),
    *((path, "redis") for path in ("/v1/chat/completions", "/api/chat")),
]
"""Each route over the embedded store, one of each API over a Redis too."""


def body(path: str, *, stream: bool = True, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "stream": stream, **BODIES[path], **more}


def words(path: str, found: list[Event]) -> str:
    """The words of an answer, in whatever dialect it was told."""
    return "".join(_words(path, event.json()) for event in found if event.data != "[DONE]")


def _words(path: str, data: dict[str, Any]) -> str:
    match path:
        case "/v1/chat/completions":
            return "".join(choice["delta"].get("content") or "" for choice in data.get("choices", []))
        case "/v1/completions":
            return "".join(choice["text"] for choice in data.get("choices", []))
        case "/v1/responses":
            return str(data["delta"]) if data["type"] == "response.output_text.delta" else ""
        case "/v1/messages":
            return str(data["delta"].get("text", "")) if data["type"] == "content_block_delta" else ""
        case "/api/chat":
            return str(data.get("message", {}).get("content", ""))
        case _:
            return str(data.get("response", ""))


async def leaves(gate: Gate, path: str, asked: dict[str, Any], **headers: str) -> str:
    """Sends a request, reads the head of its answer, and goes; gives the request's id."""
    async with gate.client.stream("POST", path, json=asked, headers=DETACH | headers) as response:
        assert response.status_code == 200, await response.aread()
        return response.headers["x-doublebuffer-id"]
