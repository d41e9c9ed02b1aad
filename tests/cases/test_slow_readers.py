"""Clients that read slowly, or not at all, from engines that send as fast as they can: the source is slowed, and nobody
else. The case's 20 s of slow reading are 5 here, its bars are as they stand: 100 MB for all processes together, 64 MB
for Redis and for what the engine could send, 300 ms for short requests, 5 s to be rid of it all."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from tests.cases.rig import OAI, OLL, Bench, redis_memory, rss, run_bench, settings
from tests.rig.connection import Recorded
from tests.rig.script import Piece, answer, chunk, encode

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

MB = 1024 * 1024
PIECES = 200_000
READ_S = 5.0
RATE = 10 * 1024
"""Bytes a second that a slow client takes."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(more=settings(max_in_flight="16")) as found:
        yield found


@dataclass
class Flood:
    """An engine that answers ``flood`` with 200,000 pieces of 1 KB, each with its number, and all else with a word."""

    sent: int = 0
    """Bytes that the engine's socket took."""
    pieces: int = PIECES
    requests: list[Recorded] = field(default_factory=list)

    async def script(self, request: Recorded) -> AsyncIterator[Piece]:
        ollama = request.path.startswith("/api/")
        if b"flood" not in request.body:
            for piece in answer("ollama" if ollama else "openai", "ok"):
                yield piece
            return
        self.requests.append(request)
        for number in range(self.pieces):
            text = f"{number:07}".ljust(1024, "x")
            # Made here, so that what was taken is known.
            data = encode("ollama", text) if ollama else encode("openai", chunk({"content": text}))
            yield data
            self.sent += len(data)
        for last in answer("ollama" if ollama else "openai"):
            yield last


@dataclass
class Slow:
    """One client with small buffers, which takes ``RATE`` bytes a second, or none."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    got: int = 0

    @classmethod
    async def ask(cls, bench: Bench, path: str, model: str) -> Slow:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        sock.setblocking(False)
        host, _, port = bench.url.removeprefix("http://").partition(":")
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        reader, writer = await asyncio.open_connection(sock=sock, limit=4096)
        body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "flood"}]}).encode()
        writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body)
        return cls(reader, writer)

    async def read(self, for_s: float) -> None:
        until = time.monotonic() + for_s
        while time.monotonic() < until:
            self.got += len(await self.reader.read(RATE // 10))
            await asyncio.sleep(0.1)

    def kill(self) -> None:
        self.writer.transport.abort()


@dataclass
class Memory:
    """What a bench's processes and its Redis took at the beginning, and at most since."""

    bench: Bench
    processes: int = 0
    redis: int = 0
    most_processes: int = 0
    most_redis: int = 0

    async def begin(self) -> None:
        self.processes, self.redis = self._now(), await redis_memory(self.bench.site)

    def _now(self) -> int:
        return sum(rss(process.pid) for process in (self.bench.site.gateway, *self.bench.site.workers))

    async def watch(self, over: asyncio.Event) -> None:
        """Until ``over``: in Redis' client a cancellation can get lost."""
        while not over.is_set():
            self.most_processes = max(self.most_processes, self._now() - self.processes)
            self.most_redis = max(self.most_redis, await redis_memory(self.bench.site) - self.redis)
            await asyncio.sleep(0.2)

    async def back_within(self, bytes: int, within_s: float) -> int:
        """What Redis takes more than at the beginning, once it is no more than that, or when the time is over."""
        until = time.monotonic() + within_s
        while (more := await redis_memory(self.bench.site) - self.redis) > bytes and time.monotonic() < until:
            await asyncio.sleep(0.1)
        return more


async def short(bench: Bench, api: str, model: str) -> float:
    reply = await bench.chat(api, model, "short", stream=True)
    assert reply.content == "ok"
    return reply.took_s


async def median_s(bench: Bench, count: int, pause_s: float = 0.0) -> float:
    """Of short requests over both APIs and both engines."""
    took = []
    for number in range(count):
        api, model = (("openai", OAI), ("ollama", OLL))[number % 2]
        took.append(await short(bench, api, model))
        await asyncio.sleep(pause_s)
    return sorted(took)[len(took) // 2]


@asynccontextmanager
async def watched(bench: Bench) -> AsyncIterator[Memory]:
    memory = Memory(bench)
    await memory.begin()
    async with asyncio.TaskGroup() as group:
        over = asyncio.Event()
        group.create_task(memory.watch(over))
        try:
            yield memory
        finally:
            over.set()


async def rid_of(flood: Flood, memory: Memory) -> None:
    """The engine's connections are closed and Redis is back, 5 s after the clients have gone."""
    began = time.monotonic()
    async with asyncio.timeout(5):
        for request in flood.requests:
            await request.closed.wait()
    assert await memory.back_within(5 * MB, 5 - (time.monotonic() - began)) <= 5 * MB


@pytest.mark.parametrize(("path", "model"), [("/v1/chat/completions", OAI), ("/api/chat", OLL)])
async def test_a_slow_reader_slows_its_source_and_nobody_else(bench: Bench, path: str, model: str) -> None:
    flood = Flood()
    bench.oai.script = bench.oll.script = flood.script
    usual_s = await median_s(bench, 10)
    async with watched(bench) as memory:
        slow = await Slow.ask(bench, path, model)
        async with asyncio.TaskGroup() as group:
            group.create_task(slow.read(READ_S))
            meanwhile_s = await median_s(bench, 16, READ_S / 20)
        told = (memory.most_processes // MB, memory.most_redis // MB, flood.sent // MB, usual_s, meanwhile_s)
        print("MB processes, Redis, engine; s before, meanwhile:", told)
        assert slow.got > RATE * READ_S / 2
        assert memory.most_processes < 100 * MB, told
        assert memory.most_redis < 64 * MB, told
        assert flood.sent < 64 * MB, told
        assert meanwhile_s < usual_s + 0.3, told
        slow.kill()
        await rid_of(flood, memory)


async def test_many_readers_who_do_not_read_at_all(bench: Bench) -> None:
    flood = Flood()
    bench.oai.script = bench.oll.script = flood.script
    await median_s(bench, 4)
    async with AsyncExitStack() as stack, watched(bench) as memory:
        crowd = [await Slow.ask(bench, path, model) for path, model in 2 * PATHS]
        for slow in crowd:
            stack.callback(slow.kill)
        until = time.monotonic() + 30
        while len(flood.requests) < len(crowd) and time.monotonic() < until:
            await asyncio.sleep(0.05)
        before = -1
        while flood.sent != before and time.monotonic() < until:
            before = flood.sent
            await asyncio.sleep(0.5)
        told = (memory.most_processes // MB, memory.most_redis // MB, flood.sent // MB)
        print("MB processes, Redis, engines:", told)
        assert len(flood.requests) == len(crowd)
        assert flood.sent == before, "the engines were never stopped"
        assert memory.most_processes < 100 * MB, told
        assert memory.most_redis < 64 * MB, told
        for slow in crowd:
            slow.kill()
        await rid_of(flood, memory)


PATHS = (("/v1/chat/completions", OAI), ("/api/chat", OLL))


@pytest.mark.parametrize(("path", "model"), PATHS)
async def test_a_reader_who_wakes_up_has_every_word_in_its_order(bench: Bench, path: str, model: str) -> None:
    flood = Flood(pieces=30_000)
    bench.oai.script = bench.oll.script = flood.script
    slow = await Slow.ask(bench, path, model)
    await slow.reader.readuntil(b"0000000")
    await asyncio.sleep(2)
    assert flood.sent < 30_000 * 1024, "it never waited"
    data, last = bytearray(), b'"done":true' if model == OLL else b"data: [DONE]"
    async with asyncio.timeout(30):
        while last not in data[-4000:]:
            piece = await slow.reader.read(1 << 20)
            assert piece, data[-300:]
            data += piece
    at = 0
    for number in range(1, 30_000):
        at = data.find(b"%07d" % number, at)
        assert at >= 0, f"piece {number} is missing"
    slow.kill()
