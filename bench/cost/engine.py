"""A mock engine that costs little, so that it is not what is measured: OpenAI chat completions on uvloop, by hand.

A prompt says what it wants: ``plan <tokens> <µs to the first> <µs from one to the next>``. Each token of a stream is a
segment of its own, also at full speed. Run as ``python -m bench.cost.engine PORT``.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from typing import Any, cast

import uvloop

MODEL = "mock"
TOKEN = "zwq "
"""Nothing else that travels holds these letters, so that counting them counts tokens."""

_PLAN = re.compile(rb"plan (\d+) (\d+) (\d+)")
_STREAMS = re.compile(rb'"stream"\s*:\s*true')
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_ID = b"chatcmpl-00000000000000000000000000000000"
_HEAD = b'{"id":"%b","object":"chat.completion.chunk","created":1700000000,"model":"mock","choices":[' % _ID


def _chunk(body: bytes) -> bytes:
    data = b"data: %b\n\n" % body
    return b"%x\r\n%b\r\n" % (len(data), data)


_ROLE = _chunk(_HEAD + b'{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}')


def _piece() -> bytes:
    choice = {"index": 0, "delta": {"content": TOKEN}, "finish_reason": None}
    body = {"id": _ID.decode(), "object": "chat.completion.chunk", "created": 1700000000, "model": MODEL}
    return _chunk(json.dumps(body | {"choices": [choice]}, separators=(",", ":")).encode())


_PIECE = _piece()
_FINISH = _chunk(_HEAD + b'{"index":0,"delta":{},"finish_reason":"stop"}]}')
_DONE = _chunk(b"[DONE]") + b"0\r\n\r\n"
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = (
    b'{"object":"list","data":[{"id":"mock","object":"model","created":1700000000,"owned_by":"vllm",'
    b'"max_model_len":32768}]}'
)


def _usage(tokens: int) -> bytes:
    return b'{"prompt_tokens":12,"completion_tokens":%d,"total_tokens":%d}' % (tokens, tokens + 12)


def _told(tokens: int) -> bytes:
    return _chunk(_HEAD + b'],"usage":' + _usage(tokens) + b"}") + _DONE


def _whole(tokens: int) -> bytes:
    return _answer(
        b'{"id":"%b","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,"message":'
        b'{"role":"assistant","content":"%b"},"finish_reason":"stop"}],"usage":%b}'
        % (_ID, TOKEN.encode() * tokens, _usage(tokens))
    )


def _answer(body: bytes, kind: bytes = b"application/json") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)


class Engine(asyncio.Protocol):
    """One connection. Requests on it come one after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = cast(Any, None)
        self._got = b""
        self._open = True
        self._paused = False
        self._left = self._tokens = 0
        self._every_s = self._next_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._open = False

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._left and not self._every_s:
            self._loop.call_soon(self._speak)

    def data_received(self, data: bytes) -> None:
        self._got = self._got + data if self._got else data
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._got[:end]
        length = _LENGTH.search(head)
        size = end + 4 + (int(length[1]) if length else 0)
        if len(self._got) < size:
            return
        body, self._got = self._got[end + 4 : size], self._got[size:]
        self._begin(head, body)

    def _begin(self, head: bytes, body: bytes) -> None:
        if not head.startswith(b"POST"):
            path = head.split(b" ", 2)[1]
            known = path.endswith(b"/models")
            self._transport.write(_answer(_MODELS) if known else _answer(b"\n", b"text/plain; charset=utf-8"))
            return
        plan = _PLAN.search(body)
        tokens, first_us, every_us = map(int, plan.groups()) if plan else (1, 0, 0)
        if not _STREAMS.search(body):
            self._later(first_us + tokens * every_us, _whole(tokens))
        elif first_us == every_us == 0 and tokens <= WHOLE_TOKENS:
            self._transport.write(b"".join((_STREAM_HEAD, _ROLE, _PIECE * tokens, _FINISH, _told(tokens))))
        else:
            self._tokens = self._left = tokens
            self._every_s = every_us / 1e6
            self._transport.write(_STREAM_HEAD)
            self._next_at = self._loop.time() + first_us / 1e6
            self._loop.call_at(self._next_at, self._speak)

    def _later(self, wait_us: int, answer: bytes) -> None:
        if wait_us:
            self._loop.call_later(wait_us / 1e6, self._write, answer)
        else:
            self._transport.write(answer)

    def _write(self, data: bytes) -> None:
        if self._open:
            self._transport.write(data)

    def _speak(self) -> None:
        """One token, and no more in this turn of the loop: what is written in one turn goes out in one segment."""
        if not self._open or (self._paused and not self._every_s):
            return
        # At full speed each is put into JSON as it comes, as an engine does; so none overtakes whoever reads it.
        data = _PIECE if self._every_s else _piece()
        if self._left == self._tokens:
            data = _ROLE + data
        self._left -= 1
        if self._left:
            self._transport.write(data)
            if self._every_s:
                self._next_at += self._every_s
                self._loop.call_at(self._next_at, self._speak)
            else:
                self._loop.call_soon(self._speak)
        else:
            self._transport.write(data + _FINISH + _told(self._tokens))


WHOLE_TOKENS = 16
"""Up to so many, at full speed, are one segment: how a gateway that reads streams hears an answer that came at once."""


async def serve(port: int) -> None:
    """Until killed. Prints the port that it has."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = await asyncio.get_running_loop().create_server(Engine, sock=listener, backlog=4096)
    print(listener.getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
