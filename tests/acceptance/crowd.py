"""A crowd of clients over both APIs, and what each of them got.

Every chat names its own marker; an engine of ``tests.rig.engine`` says it back before numbered words, so that an answer
that is cut, mixed up with another, repeated or empty shows at once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.rig.engine import expected


@dataclass(frozen=True, slots=True)
class Ask:
    """One chat as a client sends it."""

    api: str
    """``openai`` or ``ollama``."""
    model: str
    prompt: str
    stream: bool
    think: bool
    temperature: float | None = None
    max_tokens: int | None = None

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.api == "openai" else "/api/chat"

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "stream": self.stream,
            "messages": [{"role": "user", "content": self.prompt}],
        }
        if self.api == "openai":
            body["chat_template_kwargs"] = {"enable_thinking": self.think}
            more = {"temperature": self.temperature, "max_tokens": self.max_tokens}
            return body | {k: v for k, v in more.items() if v is not None}
        body["think"] = self.think
        options = {"temperature": self.temperature, "num_predict": self.max_tokens}
        if any(v is not None for v in options.values()):
            body["options"] = {k: v for k, v in options.items() if v is not None}
        return body


@dataclass(slots=True)
class Answer:
    """What came back. ``error``: the explicit error, before or in the stream. ``ended``: it said that it is whole."""

    status: int = 0
    content: str = ""
    thinking: str = ""
    error: str = ""
    ended: bool = False
    ends: int = 0
    lane: str = ""
    first_s: float = 0.0
    took_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


def _take_message(answer: Answer, message: dict[str, Any]) -> None:
    answer.content += message.get("content") or ""
    answer.thinking += message.get("reasoning_content") or message.get("reasoning") or message.get("thinking") or ""


def _take_openai(answer: Answer, told: dict[str, Any], part: str) -> None:
    if told.get("error"):
        answer.error = told["error"]["message"]
        return
    for choice in told.get("choices") or []:
        _take_message(answer, choice.get(part) or {})
        if choice.get("finish_reason"):
            answer.ended = True
            answer.ends += 1


def _take_ollama(answer: Answer, told: dict[str, Any]) -> None:
    if told.get("error"):
        answer.error = told["error"]
        return
    _take_message(answer, told.get("message") or {})
    if told.get("done"):
        answer.ended = True
        answer.ends += 1


async def ask(client: httpx.AsyncClient, what: Ask) -> Answer:
    """One chat. A connection that breaks off after an ``error`` line is no surprise; without one it raises."""
    answer, began = Answer(), time.perf_counter()
    async with client.stream("POST", what.path, content=json.dumps(what.body())) as response:
        answer.status, answer.headers = response.status_code, dict(response.headers)
        answer.lane = response.headers.get("x-doublebuffer-lane", "")
        kind = response.headers["content-type"]
        if answer.status != 200 or not what.stream:
            told = json.loads(await response.aread())
            answer.first_s = time.perf_counter() - began
            if what.api == "openai":
                _take_openai(answer, told, "message")
            else:
                _take_ollama(answer, told)
        else:
            assert kind.startswith("text/event-stream" if what.api == "openai" else "application/x-ndjson"), kind
            try:
                async for line in response.aiter_lines():
                    if answer.first_s == 0.0 and line:
                        answer.first_s = time.perf_counter() - began
                    if what.api == "ollama":
                        _take_ollama(answer, json.loads(line))
                    elif line.startswith("data: ") and line != "data: [DONE]":
                        _take_openai(answer, json.loads(line[6:]), "delta")
            except httpx.RemoteProtocolError:
                if not answer.error:
                    raise
    answer.took_s = time.perf_counter() - began
    return answer


def asks(
    count: int, models: list[str], *, seed: int = 0, words: tuple[int, int] = (1, 40), pad: int = 400
) -> list[Ask]:
    """Chats over both APIs, streaming and not, thinking and not: all combinations equally often."""
    draw = random.Random(seed)
    kinds = itertools.cycle(itertools.product(("openai", "ollama"), (True, False), (True, False), models))
    made = []
    for i, (api, stream, think, model) in zip(range(count), kinds, strict=False):
        prompt = (
            f"{'x' * draw.randrange(pad)} marker:m{seed}-{i} words:{draw.randint(*words)} thoughts:{draw.randint(1, 5)}"
        )
        made.append(Ask(api, model, prompt, stream, think))
    draw.shuffle(made)
    return made


async def crowd(url: str, what: list[Ask], *, clients: int = 64, timeout_s: float = 60.0) -> list[Answer]:
    """All chats, so many at once. A chat that hangs ends the test by its timeout."""
    answers: list[Answer] = [Answer() for _ in what]
    queue = iter(range(len(what)))
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)

    async with httpx.AsyncClient(base_url=url, timeout=timeout_s, limits=limits) as client:

        async def one() -> None:
            for i in queue:
                answers[i] = await ask(client, what[i])

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(one())
    return answers


def faults(what: list[Ask], answers: list[Answer], *, errors_allowed: bool = False) -> Counter[str]:
    """What is wrong with the answers, counted by kind; empty if all is well."""
    found: Counter[str] = Counter()
    for asked, got in zip(what, answers, strict=True):
        whole = expected(asked.prompt)
        if got.error:
            if not errors_allowed:
                found[f"error: {got.status} {got.error}"] += 1
            elif not whole.startswith(got.content):
                found["words lost, repeated or another's before an error"] += 1
            elif got.ended:
                found["an error and an end"] += 1
            continue
        if got.content != whole:
            found["content is not the engine's"] += 1
        if not got.ended or got.ends != 1:
            found["not exactly one end"] += 1
        if asked.think and "thought 1" not in got.thinking:
            found["thinking missing"] += 1
        if not asked.think and got.thinking:
            found["thinking not asked for"] += 1
        if "thought" in got.content:
            found["thinking in the content"] += 1
    return found
