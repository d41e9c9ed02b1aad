"""Engines that speak HTTP as they should not: each costs its own request, and nothing of it is taken for another's."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import backends.client
import backends.exchange
import backends.unpacking
from backends.arriving import ClosedError, NoHttpError
from backends.asking import Asking
from backends.base import BackendError
from backends.client import Client
from backends.http import Connection
from buffer.backend import BackendSpec
from tests.backends.rig import backend, chat

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HELLO = OK + b"Content-Length: 5\r\n\r\nhello"
PACKED = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
PATIENCE_S = 5.0


@asynccontextmanager
async def serving(*answers: bytes) -> AsyncIterator[tuple[str, list[int]]]:
    """Gives one answer for each request and closes the connection once the last of them is out, or is empty."""
    left, asked = list(answers), [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
                asked[0] += 1
                writer.write(answer := left.pop(0))
                await writer.drain()
                if not answer.startswith(HELLO):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@asynccontextmanager
async def engine(*answers: bytes) -> AsyncIterator[tuple[Asking, list[int]]]:
    async with serving(*answers) as (url, asked):
        asking = Asking(url, {}, connect_timeout_s=PATIENCE_S)
        yield asking, asked
        asking.close()


async def whole(asking: Asking) -> tuple[Connection, bytes]:
    until_at = asyncio.get_running_loop().time() + PATIENCE_S
    connection = await asking.ask("/x", b"{}", {}, until_at)
    body = b""
    while (data := await connection.next(until_at)) is not None:
        body += data
    return connection, body


@pytest.mark.parametrize(
    "second",
    [b"HTTP/1.1 500 No\r\nX-Other: 1\r\nContent-Length: 3\r\n\r\nbad", b"HTTP/1.1 100 Continue\r\n\r\n", b"??"],
)
async def test_what_comes_behind_an_answer_is_no_part_of_it(second: bytes) -> None:
    async with engine(HELLO + second) as (asking, _):
        connection, body = await whole(asking)
        assert (connection.status_code, body, connection.headers) == (200, b"hello", {"content-length": "5"})
        assert not connection.reusable


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        OK + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\nhello",
        CHUNKED + b"3\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        OK + b"X: " + b"a" * 400_000 + b"\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
async def test_what_can_be_read_in_two_ways_is_no_http(answer: bytes) -> None:
    async with engine(answer) as (asking, _):
        with pytest.raises(NoHttpError):
            await whole(asking)


@pytest.mark.parametrize(
    "endless",
    [CHUNKED + b"5\r\nhello\r\n0\r\n" + b"X-%d: y\r\n" * 100_000, CHUNKED + b"5\r\nhello\r\n5;" + b"a" * 400_000],
)
async def test_what_stands_between_the_pieces_of_an_answer_is_bounded(endless: bytes) -> None:
    async with engine(endless) as (asking, _):
        with pytest.raises(NoHttpError):
            await whole(asking)


async def test_a_trailer_changes_no_header() -> None:
    answer = OK + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
    async with engine(answer + b"Content-Type: text/html\r\n\r\n") as (asking, _):
        connection, body = await whole(asking)
        assert (body, connection.headers["content-type"]) == (b"hello", "application/json")


async def test_an_answer_that_unpacks_to_far_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends.unpacking, "MOST_UNPACKED", 1024 * 1024)
    packed = gzip.compress(bytes(50 * 1024 * 1024))
    async with engine(PACKED % (len(packed), packed)) as (asking, _):
        with pytest.raises(NoHttpError):
            await whole(asking)


async def test_an_answer_that_was_packed_is_whole_or_an_error() -> None:
    packed = gzip.compress(b"hello")
    async with engine(PACKED % (len(packed), packed)) as (asking, _):
        assert (await whole(asking))[1] == b"hello"
    async with engine(PACKED % (15, packed[:15])) as (asking, _):
        with pytest.raises(ClosedError):
            await whole(asking)


@pytest.mark.parametrize(("begun", "asked_in_all"), [(b"", 3), (b"HTTP/1.1 200 OK\r\nX-Begun: ", 2)])
async def test_only_a_request_without_any_answer_goes_out_again(begun: bytes, asked_in_all: int) -> None:
    async with engine(HELLO, begun, HELLO) as (asking, asked):
        connection, _ = await whole(asking)
        asking.put_back(connection)
        if begun:
            with pytest.raises(ClosedError):
                await whole(asking)
        else:
            assert (await whole(asking))[1] == b"hello"
        assert asked[0] == asked_in_all


async def test_a_look_or_a_page_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends.client, "LOOK_LIMIT", 100_000)
    monkeypatch.setattr(backends.exchange, "LINE_LIMIT", 100_000)
    page = OK + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n" + b" " * 1_000_000
    async with serving(page) as (url, _), backend(url, "openai") as one:
        with pytest.raises(BackendError, match="more than"):
            async for _ in one.chat(chat(), upstream_model="m", request_id="r"):
                pass
    packed = gzip.compress(bytes(1_000_000))
    async with serving(PACKED % (len(packed), packed)) as (url, _):
        client = Client(BackendSpec(name="b", kind="openai", url=url), connect_timeout_s=PATIENCE_S)
        with pytest.raises(BackendError, match="more than"):
            await client.look("/v1/models", {})
        await client.aclose()
