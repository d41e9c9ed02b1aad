"""What a client may do to the server before anybody knows who it is: little, and not for long."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from typing import Any

import pytest

from doublebuffer.guard import ClientLimits, client_limits
from tests.command.guard_rig import GET, LIMITS, Peer, alive, gateway, said, serving, statuses

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
