"""What a client may do to the server before anybody knows who it is: little, and not for long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import resource
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from buffer.settings import Settings
from doublebuffer.guard import ClientLimits, client_limits
from doublebuffer.serving import bind, serve
from gateway.app import create_app
from tests.gateway.rig import free_store

LIMITS = ClientLimits(connections=20, head_bytes=8192, head_s=0.4, pipelined=4, linger_s=0.3, unread_s=0.5)
GET = b"GET /api/version HTTP/1.1\r\nHost: x\r\n"


@contextlib.asynccontextmanager
async def serving(app: Any, limits: ClientLimits = LIMITS) -> AsyncIterator[int]:
    listener = bind("127.0.0.1", 0)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(serve(app, listener, stop, drain_s=0, limits=limits))
        try:
            yield listener.getsockname()[1]
        finally:
            stop.set()
            await running


@contextlib.asynccontextmanager
async def gateway(limits: ClientLimits = LIMITS, **settings: Any) -> AsyncIterator[int]:
    store = await free_store()
    try:
        async with serving(create_app(Settings(**settings), store), limits) as port:
            yield port
    finally:
        await store.aclose()


class Peer:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def at(cls, port: int) -> Peer:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def end(self, *, within_s: float = 5.0) -> bytes:
        """All that comes until the server closes; a reset is an end too."""
        data = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(within_s):
                while piece := await self.reader.read(65536):
                    data += piece
        self.writer.close()
        return data

    async def drips(self, data: bytes, every_s: float) -> float:
        """Sends a byte at a time until the server has had enough; how long that took."""
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in data:
                if self.reader.at_eof() or self.writer.is_closing() or time.monotonic() - began > 5:
                    break
                self.writer.write(bytes([byte]))
                await self.writer.drain()
                await asyncio.sleep(every_s)
        return time.monotonic() - began


async def said(port: int, *pieces: bytes) -> bytes:
    peer = await Peer.at(port)
    for piece in pieces:
        peer.writer.write(piece)
        await asyncio.sleep(0)
    return await peer.end()


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]


async def alive(port: int) -> None:
    assert statuses(await said(port, GET + b"Connection: close\r\n\r\n")) == [200]


# Time ----------------------------------------------------------------------------------------------------------------


async def test_a_head_that_comes_byte_by_byte_is_not_waited_for() -> None:
    async with gateway() as port:
        peer = await Peer.at(port)
        began = time.monotonic()
        dripping = asyncio.create_task(peer.drips(GET + b"X: " + b"y" * 1000, 0.05))
        assert statuses(await peer.end()) == [408]
        assert 0.3 < time.monotonic() - began < 3
        await dripping
        await alive(port)


async def test_whoever_says_nothing_is_shown_out_without_a_word() -> None:
    async with gateway() as port:
        assert await said(port) == b""
        assert await said(port, b"\r\n") == b""
        # The same on a connection that has been useful before.
        peer = await Peer.at(port)
        peer.writer.write(GET + b"\r\n")
        await peer.reader.readuntil(b"}")
        await peer.drips(b"\r\n" * 100, 0.05)
        assert await peer.end(within_s=3) == b""


async def test_a_next_request_has_its_own_time() -> None:
    async with gateway() as port:
        peer = await Peer.at(port)
        for _ in range(3):
            peer.writer.write(GET + b"\r\n")
            await peer.reader.readuntil(b"}")
            await asyncio.sleep(0.3)
        peer.writer.write(GET[:10])
        assert statuses(await peer.end()) == [408]


async def test_a_body_that_nobody_wants_is_let_in_for_a_moment_only() -> None:
    async with gateway(max_body_bytes=100) as port:
        peer = await Peer.at(port)
        peer.writer.write(b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        dripping = asyncio.create_task(peer.drips(b"x" * 1000, 0.02))
        assert statuses(await peer.end()) == [413]
        assert await dripping < 2


async def test_a_body_that_came_whole_costs_no_connection() -> None:
    async with gateway() as port:
        peer = await Peer.at(port)
        for body in (b"", b"{", b"x" * 70_000):
            head = f"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            peer.writer.write(head.encode())
            assert b"404" in await peer.reader.readuntil(b"found")
            peer.writer.write(body)
            await asyncio.sleep(LIMITS.linger_s + 0.1)
        peer.writer.write(GET + b"Connection: close\r\n\r\n")
        assert statuses(await peer.end()) == [200]


async def flood(scope: Any, receive: Any, send: Any) -> None:
    """Answers without end, and leaves when it may not write."""
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(100_000):
        await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        if scope["path"] == "/left":
            break
    await send({"type": "http.response.body", "body": b""})


async def test_who_reads_nothing_of_an_answer_has_left() -> None:
    ended = asyncio.Event()

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            ended.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            sending = group.create_task(flood(scope, receive, send))
            await ended.wait()
            sending.cancel()

    async with serving(watched) as port:
        peer = await Peer.at(port)
        peer.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(5):
            await ended.wait()
        peer.writer.close()


async def test_who_reads_slowly_but_does_is_left_alone() -> None:
    async def large(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 12_000_000})

    async with serving(large) as port:
        peer = await Peer.at(port)
        peer.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        began, size = time.monotonic(), 0
        while piece := await peer.reader.read(1_000_000):
            size += len(piece)
            if size < 11_000_000:
                await asyncio.sleep(0.02)
        assert size > 12_000_000
        assert time.monotonic() - began > LIMITS.unread_s
        peer.writer.close()


# Bytes and numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: a\r\n" * 5000 + b"\r\n",
    ],
)
async def test_a_head_has_a_size(head: bytes) -> None:
    async with gateway() as port:
        assert statuses(await said(port, head)) == [431]
        # Without its end, a piece at a time.
        peer = await Peer.at(port)
        with contextlib.suppress(ConnectionError):
            for at in range(0, len(head) - 2, 1000):
                peer.writer.write(head[:-4][at : at + 1000])
                await peer.writer.drain()
                await asyncio.sleep(0.001)
            while len(head) < 100_000:
                peer.writer.write(b"a" * 1000)
                await peer.writer.drain()
                await asyncio.sleep(0.001)
        assert statuses(await peer.end()) in ([431], [])
        await alive(port)


async def test_requests_sent_ahead_are_answered_in_order_and_have_a_number() -> None:
    async with gateway() as port:
        few = (GET + b"\r\n") * 3 + GET + b"Connection: close\r\n\r\n"
        assert statuses(await said(port, few)) == [200] * 4
        began = time.monotonic()
        assert len(statuses(await said(port, (GET + b"\r\n") * 5000))) <= LIMITS.pipelined + 1
        assert time.monotonic() - began < 2
        await alive(port)


async def test_connections_have_a_number_and_those_beyond_are_told() -> None:
    async with gateway(ClientLimits(connections=5, head_s=3)) as port:
        peers = [await Peer.at(port) for _ in range(5)]
        await asyncio.sleep(0.05)
        answer = await said(port, GET + b"\r\n")
        assert statuses(answer) == [503]
        assert b"retry-after: 5" in answer
        peers.pop().writer.close()
        await asyncio.sleep(0.05)
        await alive(port)
        for peer in peers:
            peer.writer.close()


def test_as_many_connections_as_there_are_files() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = client_limits()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= limits.connections <= soft
    assert hard == before[1]
    assert soft >= before[0]


# Words ---------------------------------------------------------------------------------------------------------------

CHAT = json.dumps({"model": "nobody", "messages": []}).encode()


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (
            b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            [400],
        ),
        (
            b"POST /api/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
            [400],
        ),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nabcd", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nabcd", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nabcd", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", [400]),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n", [400]),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", [400]),
        (b"GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n", [400]),
        (b"CONNECT evil.example:80 HTTP/1.1\r\nHost: x\r\n\r\n", [400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100, [400]),
        (b"TRACE /api/tags HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", [405]),
        (b"GET http://evil.example/api/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", [200]),
    ],
)
async def test_what_no_honest_client_says(request_bytes: bytes, expected: list[int]) -> None:
    async with gateway() as port:
        assert statuses(await said(port, request_bytes)) == expected
        await alive(port)


async def test_nothing_is_smuggled_behind_a_length_that_lies() -> None:
    """Two readings of where the first body ends; by neither is there a second request."""
    inner = b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n"
    for head in (
        b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (len(inner) + 5),
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: identity, chunked, identity\r\n",
    ):
        async with gateway() as port:
            request = b"POST /nothing HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n0\r\n\r\n" + inner
            assert 200 not in statuses(await said(port, request))


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c", b"TLS/1.0"])
async def test_nothing_is_upgraded(protocol: bytes) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    async with gateway() as port:
        ahead = GET + upgrade + b"\r\n" + GET + b"Connection: close\r\n\r\n"
        assert statuses(await said(port, ahead)) == [200, 200]
        posted = b"POST /api/show HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + upgrade + b"\r\n{}"
        assert statuses(await said(port, posted + GET + b"Connection: close\r\n\r\n")) == [400, 200]


async def test_a_hostile_crowd_leaves_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway() as port:
        for request in (
            b"\0" * 50,
            GET + b"X: " + b"a" * 9000,
            GET + b"Connection: upgrade, close\r\nUpgrade: x\r\n\r\n",
        ):
            await said(port, request)
    assert [record.getMessage() for record in caplog.records if "uvicorn" in record.name] == []
