from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib

import pytest

from gateway.body import read_body
from gateway.call import Call, Message, Receive
from gateway.refusal import ClientLeft, Refusal


def call(**headers: str) -> Call:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Call("POST", "/api/chat", named, "r", "", trusted=True, key_lanes=frozenset(), address="")


def receiver(*messages: bytes | None) -> tuple[Receive, list[Message]]:
    """Chunks of a body, None for the client's leaving."""
    waiting: list[Message] = [
        {"type": "http.disconnect"}
        if chunk is None
        else {"type": "http.request", "body": chunk, "more_body": i < len(messages) - 1}
        for i, chunk in enumerate(messages)
    ]

    async def receive() -> Message:
        return waiting.pop(0)

    return receive, waiting


async def test_chunks_are_joined() -> None:
    receive, _ = receiver(b'{"a"', b":1", b"}")
    assert await read_body(call(), receive, 100) == b'{"a":1}'


async def test_a_length_over_the_limit_is_refused_unread() -> None:
    receive, waiting = receiver(b"x")
    with pytest.raises(Refusal) as refusal:
        await read_body(call(content_length="101"), receive, 100)
    assert refusal.value.failure.status == 413
    assert waiting


async def test_a_body_over_the_limit_is_refused_as_soon_as_it_is() -> None:
    receive, waiting = receiver(b"x" * 60, b"x" * 60, b"x" * 60)
    with pytest.raises(Refusal) as refusal:
        await read_body(call(), receive, 100)
    assert refusal.value.failure.status == 413
    assert len(waiting) == 1


async def test_a_client_that_leaves_in_its_body() -> None:
    receive, _ = receiver(b"x", None)
    with pytest.raises(ClientLeft):
        await read_body(call(), receive, 100)


@pytest.mark.parametrize("size", [10, 256 * 1024, 256 * 1024 + 1, 1_000_000])
async def test_gzip_is_inflated(size: int) -> None:
    plain = bytes(i * i % 251 for i in range(size))
    receive, _ = receiver(gzip.compress(plain))
    assert await read_body(call(content_encoding="gzip"), receive, 2_000_000) == plain


async def test_a_bomb_is_not() -> None:
    receive, _ = receiver(gzip.compress(bytes(50_000_000)))
    with pytest.raises(Refusal) as refusal:
        await read_body(call(content_encoding="gzip"), receive, 100_000)
    assert refusal.value.failure.status == 413


async def test_how_large_one_is_is_found_out_without_its_memory() -> None:
    bomb = gzip.compress(bytes(150_000_000))
    receive, _ = receiver(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(Refusal) as refusal:
            await read_body(call(content_encoding="gzip"), receive, 100_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refusal.value.failure.status == 413
    assert peak < 5_000_000


@pytest.mark.parametrize("size", [256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 2 * 256 * 1024, 3 * 256 * 1024 + 7])
@pytest.mark.parametrize("wbits", [zlib.MAX_WBITS, -zlib.MAX_WBITS])
async def test_deflate_to_the_last_byte(wbits: int, size: int) -> None:
    """Also where all of the packed data has been read before all that it stands for has been given out."""
    packer = zlib.compressobj(9, wbits=wbits)
    data = packer.compress(bytes(size)) + packer.flush()
    for limit, fits in ((size, True), (size - 1, False)):
        receive, _ = receiver(data)
        if fits:
            assert await read_body(call(content_encoding="deflate"), receive, limit) == bytes(size)
        else:
            with pytest.raises(Refusal) as refusal:
                await read_body(call(content_encoding="deflate"), receive, limit)
            assert refusal.value.failure.status == 413


async def test_one_that_is_let_in_does_not_hold_up_the_loop() -> None:
    receive, _ = receiver(gzip.compress(bytes(50_000_000)))
    reading = asyncio.create_task(read_body(call(content_encoding="gzip"), receive, 100_000_000))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10
    assert len(await reading) == 50_000_000


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [("gzip", b"{}", 400), ("gzip", gzip.compress(b"{}", mtime=0)[:-4], 400), ("br", b"{}", 415)],
)
async def test_other_encodings_are_refused(encoding: str, body: bytes, status: int) -> None:
    receive, _ = receiver(body)
    with pytest.raises(Refusal) as refusal:
        await read_body(call(content_encoding=encoding), receive, 100)
    assert refusal.value.failure.status == status


async def test_an_empty_gzip_body_is_an_empty_body() -> None:
    receive, _ = receiver(b"")
    assert await read_body(call(content_encoding="gzip"), receive, 100) == b""
