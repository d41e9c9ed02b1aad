"""One request, read piece by piece, and what it came to."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
import msgspec
from msgspec import Struct

PATH = "/v1/chat/completions"
Outcome = Literal["answered", "refused", "failed"]
CLOSED_CONNECTIONS = 8
"""Kept ones that may turn out to be closed, one after the other, before that is a failure."""
REFUSALS = frozenset({429, 503})


class _Delta(Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Usage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Chunk(Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Chunk)


@dataclass(slots=True)
class Answer:
    """Instants are the run's, in seconds of this machine's clock since its start; NaN for what never came."""

    number: int
    lane: str
    """By the workload's own count of the prompt's tokens, the same for both ways."""
    due_at: float
    """When it was to be sent."""
    sent_at: float = math.nan
    first_at: float = math.nan
    """The first piece of the answer, thought or said."""
    last_at: float = math.nan
    """The last one."""
    ended_at: float = math.nan
    pieces: int = 0
    tokens: int = 0
    """Of the answer as the engine counted them; 0: it did not tell."""
    prompt_tokens: int = 0
    outcome: Outcome = "failed"
    trouble: str = ""
    """Why it failed or was refused: a status, or a kind of error. Nobody's words."""
    gateway_lane: str = ""
    """Where the gateway put it, as its header tells."""

    @property
    def first_token_s(self) -> float:
        return self.first_at - self.due_at

    @property
    def token_s(self) -> float:
        """Mean time from one token to the next; NaN for an answer of one."""
        tokens = self.tokens or self.pieces
        return (self.last_at - self.first_at) / (tokens - 1) if tokens > 1 else math.nan


class Asker:
    """Asks one server. ``began_at``: the clock's time that instants count from; the loop's own goes by whole
    milliseconds."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, key: str = "") -> None:
        self._session = session
        self._url = url.rstrip("/") + PATH
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self.began_at = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self.began_at

    async def ask(self, answer: Answer, body: bytes) -> Answer:
        """Sends it and reads the answer to its end, whatever that is."""
        answer.sent_at = self.now()
        try:
            await self._on_any_connection(answer, body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            answer.outcome, answer.trouble = "failed", type(error).__name__
        answer.ended_at = self.now()
        return answer

    async def _on_any_connection(self, answer: Answer, body: bytes) -> None:
        """A connection that was kept may be closed at the moment in which it is used; any client tries another then."""
        for _ in range(CLOSED_CONNECTIONS):
            try:
                return await self._send(answer, body)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if answer.pieces:
                    raise
        return await self._send(answer, body)

    async def _send(self, answer: Answer, body: bytes) -> None:
        async with self._session.post(self._url, data=body, headers=self._headers) as response:
            answer.gateway_lane = response.headers.get("X-Doublebuffer-Lane", "")
            if response.status == 200:
                await self._read(response, answer)
            else:
                answer.outcome = "refused" if response.status in REFUSALS else "failed"
                answer.trouble = f"status {response.status}"
                await response.read()

    async def _read(self, response: aiohttp.ClientResponse, answer: Answer) -> None:
        rest = b""
        ended = False
        async for data in response.content.iter_any():
            now = self.now()
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                if event.startswith(b"data: {"):
                    ended = _take(event[6:], answer, now) or ended
        if ended and not answer.trouble:
            answer.outcome = "answered"
        else:
            answer.trouble = answer.trouble or "cut off"


def _take(event: bytes, answer: Answer, now: float) -> bool:
    """True: the answer has ended by itself."""
    try:
        chunk = _decoder.decode(event)
    except msgspec.DecodeError:
        answer.trouble = "unreadable"
        return False
    if chunk.error is not None:
        answer.trouble = "error in the answer"
        return False
    if chunk.usage is not None:
        answer.tokens, answer.prompt_tokens = chunk.usage.completion_tokens, chunk.usage.prompt_tokens
    ended = False
    for choice in chunk.choices:
        delta = choice.delta
        if delta.content or delta.reasoning or delta.reasoning_content:
            if not answer.pieces:
                answer.first_at = now
            answer.pieces += 1
            answer.last_at = now
        ended = ended or choice.finish_reason is not None
    return ended
