"""One chat of one client, read word by word, and how it went."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from tests.chaos.asks import Ask
from tests.chaos.text import Flaws, flaws

Outcome = Literal[
    "answered",
    "error in the answer",
    "error instead of an answer",
    "refused",
    "left",
    "gateway killed",
    "cut off",
    "forgotten",
    "gone with its store",
    "hung",
]
LONGEST_STAY_S = 3.0
"""Of a client that leaves before an answer in one piece."""
STREAMS = ("text/event-stream", "application/x-ndjson")
LENGTH_OFF = 3
"""Tokens by which a limit may be missed where an answer was gone on with: not every engine counts the last pieces."""


@dataclass(slots=True)
class Result:
    ask: Ask
    client: int
    began_at: float
    """``time.time()``; so is ``ended_at``."""
    id: str = ""
    gateway: int = 0
    status: int = 0
    text: str = ""
    thinking: str = ""
    error: str = ""
    ends: int = 0
    late: bool = False
    """Words came behind the end."""
    reason: str = ""
    tokens: int | None = None
    """Of the answer, as it was told."""
    first_at: float = 0.0
    ended_at: float = 0.0
    retry_after: str = ""
    outcome: Outcome = "hung"
    flaws: Flaws = field(default_factory=Flaws)
    words: int = 0
    """That came, counted once it was over."""
    length_off: bool = False
    """It was to end at a number of tokens, and ended far from there."""
    returns: int = 0
    """How often a detached client came back."""

    def take(self, told: dict[str, Any]) -> None:
        """A piece of a stream, or a whole answer."""
        if told.get("error"):
            error = told["error"]
            self.error = error["message"] if isinstance(error, dict) else str(error)
            return
        for choice in told.get("choices") or []:
            self._words(choice.get("delta") or choice.get("message") or {}, choice.get("finish_reason") or "")
        if "message" in told:
            self._words(told["message"], (told.get("done_reason") or "stop") if told.get("done") else "")
        usage = told.get("usage") or {}
        self.tokens = usage.get("completion_tokens", told.get("eval_count", self.tokens))

    def _words(self, message: dict[str, Any], reason: str) -> None:
        text = message.get("content") or ""
        if text and self.ends:
            self.late = True
        self.text += text
        self.thinking += message.get("reasoning_content") or message.get("reasoning") or message.get("thinking") or ""
        if reason:
            self.ends += 1
            self.reason = reason

    def begin_again(self) -> None:
        """All of it is told once more, from the start."""
        self.text = self.thinking = self.error = ""
        self.ends = 0

    def judge(self) -> None:
        """Which words are not as they should be, now that it is over."""
        whole = self.outcome == "answered"
        self.flaws = flaws(self.ask.task, self.text, whole=whole and self.reason != "length")
        thoughts = "".join(self.ask.task.thinking())
        if not thoughts.startswith(self.thinking) or (whole and self.thinking != thoughts and self.reason != "length"):
            self.flaws.wrong += 1
        if whole and self.reason == "length" and self.ask.most is None:
            self.flaws.lost += 1
        self.words = self.text.count("·")
        if whole and self.ask.most is not None:
            tokens = self.ask.task.tokens()
            wanted = min(self.ask.task.room(self.ask.most), len(tokens))
            came = next((i for i in range(len(tokens) + 1) if len("".join(tokens[:i])) >= len(self.text)), 0)
            self.length_off = abs(came - wanted) > LENGTH_OFF

    @property
    def broken_in_thinking(self) -> bool:
        """Its words had not begun."""
        return bool(self.thinking) and not self.words

    @property
    def fair(self) -> bool:
        """The client was there until the end, and so was whoever had its answer."""
        return self.outcome not in ("left", "gateway killed", "gone with its store")

    def row(self) -> dict[str, Any]:
        """For the trace. The words are known from the marker; how many there were is told."""
        ask = self.ask
        told = {
            "marker": ask.task.marker,
            "id": self.id,
            "outcome": self.outcome,
            "api": ask.api,
            "model": ask.model,
            "stream": ask.stream,
            "gateway": self.gateway,
            "status": self.status,
            "error": self.error,
            "words": f"{self.words} of {ask.task.words}",
            "thoughts": f"{self.thinking.count('.')} of {ask.task.thoughts}",
            "ends": self.ends,
            "reason": self.reason,
            "most": ask.most,
            "returns": self.returns if ask.detaches is not None else None,
            "tokens": self.tokens,
            "began_at": round(self.began_at, 3),
            "first_at": round(self.first_at, 3),
            "ended_at": round(self.ended_at, 3),
        }
        if self.flaws:
            flawed = self.flaws
            told["flaws"] = [flawed.lost, flawed.repeated, flawed.reordered, flawed.wrong]
            told["got"] = self.text
        return told


async def chat(session: aiohttp.ClientSession, url: str, result: Result) -> None:
    """Sends it and reads the answer to its end, whatever that is, or leaves. Raises what breaks the connection."""
    ask = result.ask
    if ask.leaves is not None and not ask.stream:
        try:
            async with asyncio.timeout(LONGEST_STAY_S * ask.leaves):
                await _read(session, url, result)
        except TimeoutError:
            result.outcome = "left"
    else:
        await _read(session, url, result)


async def _read(session: aiohttp.ClientSession, url: str, result: Result) -> None:
    ask = result.ask
    async with session.post(url + ask.path, data=body_of(ask)) as response:
        if await whole_of(response, result):
            return
        async for told in events_of(response, ask.api):
            result.first_at = result.first_at or time.time()
            result.take(told)
            if ask.leaves is not None and result.text.count("·") >= ask.leaves * ask.task.words:
                result.outcome = "left"
                return
        result.outcome = "error in the answer" if result.error else "answered" if result.ends else "cut off"


def body_of(ask: Ask) -> bytes:
    return json.dumps(ask.body()).encode()


async def whole_of(response: aiohttp.ClientResponse, result: Result) -> bool:
    """Takes an answer that is no stream; False: it is one."""
    result.status = response.status
    result.id = response.headers.get("X-Doublebuffer-Id", "")
    result.retry_after = response.headers.get("Retry-After", "")
    if response.content_type in STREAMS:
        return False
    result.take(json.loads(await response.read()))
    if result.status == 200 and not result.error:
        result.outcome = "answered"
    elif result.status in (429, 503) and result.retry_after:
        result.outcome = "refused"
    else:
        result.outcome = "error instead of an answer"
    return True


async def events_of(response: aiohttp.ClientResponse, api: str) -> AsyncIterator[dict[str, Any]]:
    rest = b""
    async for part in response.content.iter_any():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if api == "ollama" and line.strip():
                yield json.loads(line)
            elif line.startswith(b"data: {"):
                yield json.loads(line[6:])
