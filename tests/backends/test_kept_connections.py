"""A connection that was kept open, and that the engine closes just as the next request comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from backends.base import Backend, BackendError
from buffer.job import Content
from tests.backends.rig import backend, chat

ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


class Engine:
    """Answers as many requests on each connection as ``lives`` says, then resets it when one more comes."""

    def __init__(self, *lives: int) -> None:
        self.lives = list(lives)
        self.requests: list[int] = []
        """Requests of each connection, the last one unanswered if it was reset."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        life, place = self.lives.pop(0) if self.lives else 1000, len(self.requests)
        self.requests.append(0)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
                )
                await reader.readexactly(length)
                self.requests[place] += 1
                if self.requests[place] > life:
                    break
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)
                )
                writer.write(ANSWER)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def engine(*lives: int) -> AsyncIterator[tuple[Engine, str]]:
    it = Engine(*lives)
    server = await asyncio.start_server(it.serve, "127.0.0.1", 0)
    async with server:
        yield it, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ask(one: Backend, text: str = "hi") -> str:
    words: list[str] = []
    async for events in one.chat(chat(text), upstream_model="m", request_id="r"):
        words += [event.text for event in events if isinstance(event, Content)]
    return "".join(words)


@pytest.mark.parametrize("size", [1, 600_000])
async def test_the_request_goes_out_again_on_a_new_connection(size: int) -> None:
    async with engine(1) as (it, url), backend(url, "openai") as one:
        assert await ask(one) == "hello"
        assert await ask(one, "x" * size) == "hello"
        assert it.requests == [2, 1]


async def test_a_new_connection_that_breaks_is_a_failure() -> None:
    async with engine(0, 1000) as (it, url), backend(url, "openai") as one:
        with pytest.raises(BackendError) as refused:
            await ask(one)
        assert refused.value.kind == "failed"
        assert it.requests == [1]
