"""A long prompt on the real llama.cpp, whole and in pieces: what short chats beside it have to wait, and it itself.

``python -m tests.acceptance.pieces MODEL.gguf`` measures and prints a report. The same chats go straight to the engine,
and through Doublebuffer to the same engine started afresh. It takes twice as long as the engine reads the prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.site import backend, run_site
from tests.rig.llama import LlamaServer, run_llama

LEAST_SHARE = 0.9
"""Of the context that the long prompt fills."""
ANSWER_TOKENS = 16
SHORT = "What does the sailor do?"
EVERY_S = 0.2
"""From the end of one short chat to the next."""
SOONER, LATER = 5.0, 1.5
"""How many times sooner a short chat is to begin, and how many times later the long one may."""


@dataclass(slots=True)
class Answer:
    text: str = ""
    first_s: float = math.nan
    prompt: int = 0
    cached: int = 0


@dataclass(slots=True)
class Run:
    """A long chat with short ones beside it. Seconds to the first token."""

    long: Answer = field(default_factory=Answer)
    short_s: list[float] = field(default_factory=list)


async def ask(client: httpx.AsyncClient, model: str, text: str) -> Answer:
    """One streamed chat at temperature 0. Raises ``RuntimeError`` if it is answered with an error."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": ANSWER_TOKENS,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    answer, asked_at = Answer(), time.monotonic()
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            raise RuntimeError((await response.aread()).decode())
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                _take(answer, json.loads(line[6:]), asked_at)
    return answer


def _take(answer: Answer, told: dict[str, Any], asked_at: float) -> None:
    if told.get("error"):
        raise RuntimeError(str(told["error"]))
    for choice in told.get("choices", ()):
        delta = choice["delta"]
        said = (delta.get("content") or "") + (delta.get("reasoning_content") or "")
        if said and math.isnan(answer.first_s):
            answer.first_s = time.monotonic() - asked_at
        answer.text += said
    if usage := told.get("usage"):
        answer.prompt = usage["prompt_tokens"]
        answer.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


async def long_prompt(client: httpx.AsyncClient, tokens: int) -> str:
    """Numbered sentences that fill about so many tokens of the model behind ``client``, an answer left room for."""
    sentence = "Line {}: the old sailor watches the quiet harbor and repairs a small golden lantern.\n"
    text = "".join(sentence.format(number) for number in range(200))
    counted = (await client.post("/tokenize", json={"content": text})).json()["tokens"]
    room = tokens - ANSWER_TOKENS - 64
    return "".join(sentence.format(number) for number in range(int(200 * room / len(counted) * LEAST_SHARE)))


async def measure(url: str, engine: LlamaServer) -> Run:
    """A long chat, and short ones one after the other from soon after it until it answers."""
    run = Run()
    timeout = httpx.Timeout(3600)
    async with (
        httpx.AsyncClient(base_url=engine.url, timeout=timeout, trust_env=False) as direct,
        httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False) as client,
    ):
        text = await long_prompt(direct, engine.context)
        long = asyncio.create_task(ask(client, engine.model, text))
        await asyncio.wait([long], timeout=EVERY_S)
        while not long.done():
            run.short_s.append((await ask(client, engine.model, SHORT)).first_s)
            await asyncio.wait([long], timeout=EVERY_S)
        run.long = await long
    return run


@contextlib.asynccontextmanager
async def through_doublebuffer(engine: LlamaServer) -> AsyncIterator[str]:
    """The address of a gateway with one worker before the engine."""
    async with run_site([backend("llama", "llamacpp", engine.url)], workers=1) as site:
        yield site.url


async def compare(file: Path, *, slots: int, context: int) -> tuple[Run, Run]:
    """Direct, and through Doublebuffer."""
    with run_llama(slots=slots, context=context, model="model", file=file) as engine:
        direct = await measure(engine.url, engine)
    with run_llama(slots=slots, context=context, model="model", file=file) as engine:
        async with through_doublebuffer(engine) as url:
            ours = await measure(url, engine)
    return direct, ours


def report(direct: Run, ours: Run) -> tuple[str, bool]:
    """The figures in words, and whether they are as they should be."""
    first, others = ours.short_s[0], ours.short_s
    sooner, later = direct.short_s[0] / first, ours.long.first_s / direct.long.first_s
    same = ours.long.text == direct.long.text
    return (
        f"The long prompt has {direct.long.prompt} tokens; {ours.long.cached} came from the cache at the end.\n"
        f"Its answer is {'the same' if same else 'NOT the same'}.\n"
        f"First token of a short chat beside it: direct {direct.short_s[0]:.2f} s, in pieces {first:.2f} s, "
        f"{sooner:.1f} times sooner\n"
        f"  (of {len(others)}: median {statistics.median(others):.2f} s, longest {max(others):.2f} s).\n"
        f"First token of the long one: direct {direct.long.first_s:.2f} s, in pieces {ours.long.first_s:.2f} s, "
        f"{later:.2f} times."
    ), same and sooner >= SOONER and later <= LATER


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("file", type=Path, help="a model in GGUF")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--context", type=int, default=4096, help="tokens of one slot")
    options = parser.parse_args()
    direct, ours = asyncio.run(compare(options.file, slots=options.slots, context=options.context))
    text, good = report(direct, ours)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
