"""Load on one path: so many clients, each on a connection of its own that stays open, each asking again when it has its
answer. On uvloop's raw protocol, since what it costs is taken from the engine's core.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from bench.cost.engine import MODEL, TOKEN

_TOKEN = TOKEN.strip().encode()
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_REST = max(len(_LAST_CHUNK), len(_TOKEN)) - 1
ANSWER_S = 60.0
"""A client that waits longer for an answer has lost it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What every client asks for, and how long they go on asking."""

    clients: int
    stream: bool
    tokens: int
    first_us: int = 0
    """From the request to the engine's first token,"""
    every_us: int = 0
    """and from each to the next."""
    for_s: float = 1.0
    """No client asks again after this."""
    spread_s: float = 0.0
    """Over what time the clients begin, evenly; 0: all at once."""

    @property
    def prompt(self) -> str:
        return f"plan {self.tokens} {self.first_us} {self.every_us}"

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"prompt": self.prompt, "model": MODEL, "token": _TOKEN.decode()}


@dataclass(slots=True)
class Heard:
    """What came of it. Instants are of ``time.perf_counter``; all else is in seconds."""

    answers: int = 0
    lost: int = 0
    """Answers that failed, broke off or lacked a token."""
    tokens: int = 0
    whole_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    """Between two reads that brought tokens, for each token of the second: those of one read came 0 apart."""
    began_at: float = 0.0
    ended_at: float = 0.0


def request(ask: Ask, path: str = "/v1/chat/completions", headers: str = "") -> bytes:
    """One client's request, ready to be sent."""
    stream = "true" if ask.stream else "false"
    usage = ',"stream_options":{"include_usage":true}' if ask.stream else ""
    body = f'{{"model":"{MODEL}","messages":[{{"role":"user","content":"{ask.prompt}"}}],"stream":{stream}{usage}}}'
    return (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n{headers}\r\n{body}"
    ).encode()


async def put(port: int, ask: Ask, *, headers: str = "") -> Heard:
    """Puts the load on 127.0.0.1:``port``."""
    heard, data = Heard(began_at=time.perf_counter()), request(ask, headers=headers)
    async with asyncio.TaskGroup() as group:
        for number in range(ask.clients):
            group.create_task(_client(port, ask, data, heard, ask.spread_s * number / ask.clients))
    heard.ended_at = time.perf_counter()
    return heard


async def _client(port: int, ask: Ask, data: bytes, heard: Heard, wait_s: float) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(wait_s)
    until_at = heard.began_at + wait_s + ask.for_s
    asker: _Asker | None = None
    while True:
        try:
            async with asyncio.timeout(ANSWER_S):
                if asker is None:
                    _, asker = await loop.create_connection(lambda: _Asker(ask.stream, heard), "127.0.0.1", port)
                tokens = await asker.ask(data)
        except (OSError, TimeoutError):
            tokens = -1
        heard.answers += tokens == ask.tokens
        heard.lost += tokens != ask.tokens
        if asker is not None and (tokens != ask.tokens or asker.closed):
            asker.close()
            asker = None
        if time.perf_counter() >= until_at or tokens < 0:
            break
    if asker is not None:
        asker.close()


class _Asker(asyncio.Protocol):
    """One connection. ``ask`` gives the tokens that came; of an answer that is none, -1."""

    def __init__(self, stream: bool, heard: Heard) -> None:
        self._stream = stream
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._transport = cast(Any, None)
        self._answer: asyncio.Future[int] | None = None
        self.closed = False
        self._clear()

    def _clear(self) -> None:
        self._rest = b""
        self._head = self._chunked = False
        self._left: int | None = None
        self._tokens = 0
        self._good = True
        self._asked_at = self._last_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._answer is not None and not self._answer.done():
            # Where neither length nor chunks were told, this is the answer's end.
            self._end(self._head and self._left is None and not self._chunked)

    def close(self) -> None:
        self._transport.close()

    async def ask(self, data: bytes) -> int:
        if self.closed:
            return -1
        self._clear()
        self._answer = self._loop.create_future()
        self._asked_at = time.perf_counter()
        self._transport.write(data)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        now_at = time.perf_counter()
        if not self._head:
            data = self._rest + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._rest = data
                return
            head, data = data[: end + 2], data[end + 2 :]
            self._head, self._rest = True, b""
            self._good = head.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200"))
            length = _LENGTH.search(head)
            self._chunked = _CHUNKED.search(head) is not None
            # The two bytes before the body count as its own here, so that an empty body's end is found too.
            self._left = int(length[1]) + 2 if length else None
        joined = self._rest + data
        if came := joined.count(_TOKEN):
            self._count(came, now_at)
        # What is cut off holds no whole token, and the letters of one do not begin anew within it.
        self._rest = joined[-_REST:].rpartition(_TOKEN)[2]
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._end(True)
        elif self._chunked and joined.endswith(_LAST_CHUNK):
            self._end(True)

    def _count(self, came: int, now_at: float) -> None:
        if self._stream:
            if not self._tokens:
                self._heard.first_s.append(now_at - self._asked_at)
            else:
                self._heard.gaps_s.append(now_at - self._last_at)
            self._heard.gaps_s.extend([0.0] * (came - 1))
            self._last_at = now_at
        self._tokens += came
        self._heard.tokens += came

    def _end(self, well: bool) -> None:
        assert self._answer is not None
        if self._answer.done():
            return
        if well and self._good:
            self._heard.whole_s.append(time.perf_counter() - self._asked_at)
            self._answer.set_result(self._tokens)
        else:
            self._answer.set_result(-1)
