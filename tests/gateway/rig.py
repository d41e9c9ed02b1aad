"""A gateway on a real uvicorn, and a worker in the test's own hands behind it."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import httpx
import uvicorn

from buffer.backend import ModelInfo
from buffer.job import Chat, Content, End, Event, Finish, Usage, decode_chat
from buffer.lanes import Lanes
from buffer.load import BackendState, WorkerPresence, publish_state, publish_worker
from buffer.records import Granted, Limits, Pulled
from buffer.replies import ReplyWriter
from buffer.settings import Settings
from buffer.store import Store, open_store
from buffer.telemetry import Telemetry
from doublebuffer.serving import serve
from gateway.app import create_app
from gateway.delivery import Timing
from tests.rig.doorbell import Doorbell

MODEL = "qwen3:0.6b"
PLAIN = "llama3.2:1b"
DONE = End("done")
PROMPT: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]


@dataclass
class Hands:
    """A worker that does only what a test tells it to. One model that thinks, one that does not."""

    store: Store
    lanes: Lanes
    replies: ReplyWriter
    name: str = "hands"
    backend: str = "engine"
    queues: Sequence[str] = ("qwen3-0.6b", "llama3.2-1b")
    granted: list[Granted] = field(default_factory=list)

    async def show(self, state: BackendState | None = None) -> None:
        """Tells of itself and its back end, as a live worker does."""
        keys = self.lanes.keys
        await publish_worker(
            self.store, keys, WorkerPresence(id=self.name, started_at=0.0, backends=[self.backend]), 60
        )
        state = state or self.state()
        await publish_state(self.store, keys, state, 60)

    def state(self, **changes: Any) -> BackendState:
        facts: dict[str, Any] = {
            "name": self.backend,
            "kind": "ollama",
            "up": True,
            "models": [
                ModelInfo(MODEL, capabilities=["completion", "tools", "thinking"]),
                ModelInfo(PLAIN, capabilities=["completion"]),
            ],
            "limit": 8,
        }
        return BackendState(**(facts | changes))

    async def take(self, count: int = 1) -> Granted:
        """Waits for a job and takes it; the last of ``count``."""
        want = len(self.granted) + count
        async with asyncio.timeout(10):
            bell = await Doorbell.now(self.lanes)
            while len(self.granted) < want:
                pulled = await self.pull_once(want - len(self.granted))
                for job in pulled.jobs:
                    self.replies.attach(job)
                    self.granted.append(job)
                if not pulled.jobs:
                    await bell.rings(1)
        return self.granted[-1]

    async def pull_once(self, want: int = 1) -> Pulled:
        return await self.lanes.pull(self.name, self.backend, self.queues, want=want, limits=Limits(64), lease_s=30)

    async def chat(self, job: Granted) -> Chat:
        (body,) = await self.lanes.body([job.id])
        assert body is not None
        return decode_chat(body)

    def say(self, job: Granted, *events: Event | str) -> None:
        self.replies.write(job.id, [Content(event) if isinstance(event, str) else event for event in events])

    async def end(self, job: Granted, end: End = DONE) -> str:
        return str(await self.replies.finish(job.id, end))

    async def answer(self, *texts: str, usage: Usage | None = None) -> Granted:
        """Takes a job and answers it."""
        job = await self.take()
        self.say(job, *texts, Finish("stop"), usage or Usage(7, len(texts)))
        await self.end(job)
        return job


@dataclass
class Rig:
    url: str
    port: int
    client: httpx.AsyncClient
    hands: Hands
    lanes: Lanes
    store: Store
    telemetry: Telemetry

    def metric(self, line: str) -> float:
        for text in self.telemetry.exposition(None).decode().splitlines():
            if text.startswith(f"doublebuffer_{line} "):
                return float(text.rpartition(" ")[2])
        return 0.0

    async def counted(self, api: str, lane: str, outcome: str) -> None:
        """Waits until one request has ended so."""

        async def is_counted() -> bool:
            return self.metric(f'requests_total{{api="{api}",lane="{lane}",outcome="{outcome}"}}') == 1

        await until(is_counted)

    async def waiting(self, count: int) -> None:
        """Waits until so many fast jobs do."""

        async def enough() -> bool:
            return (await self.lanes.depths())["fast"].waiting >= count

        await until(enough)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Asks a store, which tells nobody when something changes there, again and again."""
    async with asyncio.timeout(10):
        while not await holds():
            await asyncio.sleep(0.005)


async def free_store() -> Store:
    return await open_store(None, prefix=f"t-{secrets.token_hex(6)}")


@asynccontextmanager
async def rig(
    *, show: bool = True, timing: Timing | None = None, ours: bool = False, **settings: Any
) -> AsyncIterator[Rig]:
    """``ours``: on our own server, which tells more than others."""
    store = await free_store()
    lanes = Lanes(store)
    replies = ReplyWriter(lanes)
    hands = Hands(store, lanes, replies)
    telemetry = Telemetry()
    app = create_app(Settings(**settings), store, telemetry=telemetry, timing=timing)
    try:
        async with asyncio.TaskGroup() as group:
            if show:
                await hands.show()
            flusher = group.create_task(replies.run())
            async with served_by_us(app) if ours else served(app) as port:
                url = f"http://127.0.0.1:{port}"
                async with httpx.AsyncClient(base_url=url, timeout=20) as client:
                    yield Rig(url, port, client, hands, lanes, store, telemetry)
            flusher.cancel()
    finally:
        await store.aclose()


class _Server(uvicorn.Server):
    """Stops when it is told to, and not when it next looks whether it was: a tenth of a second at each test's end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.told = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self.told.set)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.told.wait()


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    """The application on a real server; its port. A client may connect at once: it is heard when the start is done."""
    # With its protocol named, asyncio sends each piece at once; without, an answer in two pieces takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    server = _Server(uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=3))
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.told.set()
            await serving


@asynccontextmanager
async def served_by_us(app: Any) -> AsyncIterator[int]:
    """The same on our own server."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve(app, listener, stop, drain_s=3, last_call=app.end_answers))
        try:
            yield listener.getsockname()[1]
        finally:
            stop.set()
            await serving


class Wire:
    """A client at the level of bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def post(cls, port: int, path: str, body: Any, *headers: str) -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        data = json.dumps(body).encode()
        head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}", *headers, "", ""]
        writer.write("\r\n".join(head).encode() + data)
        await writer.drain()
        return cls(reader, writer)

    async def until(self, word: bytes) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.readuntil(word)

    async def rest(self) -> bytes:
        """Everything up to the connection's end."""
        async with asyncio.timeout(10):
            return await self.reader.read()

    async def leave(self) -> None:
        self.writer.close()


def ollama(model: str = MODEL, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": PROMPT, **more}


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def chunks(text: str) -> list[dict[str, Any]]:
    """The chunks of a stream of events that ends as it should."""
    blocks = text.split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-2] if not block.startswith(":")]
