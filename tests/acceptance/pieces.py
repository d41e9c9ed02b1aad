"""A long prompt on the real llama.cpp, whole and in pieces: what short chats beside it have to wait, and it itself.

``python -m tests.acceptance.pieces MODEL.gguf`` measures and prints a report. The same chats go straight to the engine,
and through Doublebuffer to the same engine started afresh. It takes thrice as long as the engine reads the prompt.

Times are told by the clock and in seconds of the engine's processor, whose single thread does all the work: these
hardly change with what else the machine does, and it is by them that the figures are judged.
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

from tests.acceptance.site import backend, cpu_s, run_site
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
    """To its first token, by the clock,"""
    first_cpu_s: float = math.nan
    """and by the engine's processor."""
    prompt: int = 0
    cached: int = 0


@dataclass(slots=True)
class Run:
    alone: Answer = field(default_factory=Answer)
    """A chat of a third of the length, with nothing beside it: in another company an engine's sums come out a little
    otherwise."""
    long: Answer = field(default_factory=Answer)
    shorts: list[Answer] = field(default_factory=list)
    """Beside the long one, one after the other."""


async def ask(client: httpx.AsyncClient, engine: LlamaServer, text: str) -> Answer:
    """One streamed chat at temperature 0. Raises ``RuntimeError`` if it is answered with an error."""
    body = {
        "model": engine.model,
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": ANSWER_TOKENS,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    answer, asked_at, cpu_at = Answer(), time.monotonic(), cpu_s(engine.pid)
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            raise RuntimeError((await response.aread()).decode())
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                _take(answer, json.loads(line[6:]))
                if answer.text and math.isnan(answer.first_s):
                    answer.first_s = time.monotonic() - asked_at
                    answer.first_cpu_s = cpu_s(engine.pid) - cpu_at
    return answer


def _take(answer: Answer, told: dict[str, Any]) -> None:
    if told.get("error"):
        raise RuntimeError(str(told["error"]))
    for choice in told.get("choices", ()):
        delta = choice["delta"]
        answer.text += (delta.get("content") or "") + (delta.get("reasoning_content") or "")
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
    # llama.cpp closes idle connections after five seconds, and whoever sends just then is not answered.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with (
        httpx.AsyncClient(base_url=engine.url, timeout=3600, limits=limits, trust_env=False) as direct,
        httpx.AsyncClient(base_url=url, timeout=3600, limits=limits, trust_env=False) as client,
    ):
        text = await long_prompt(direct, engine.context)
        run.alone = await ask(client, engine, f"Read this.\n{text[: len(text) // 3]}")
        long = asyncio.create_task(ask(client, engine, text))
        await asyncio.wait([long], timeout=EVERY_S)
        while not long.done():
            run.shorts.append(await ask(client, engine, SHORT))
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
    sooner = direct.shorts[0].first_cpu_s / max(ours.shorts[0].first_cpu_s, 0.01)
    later = ours.long.first_cpu_s / direct.long.first_cpu_s
    waits = [one.first_cpu_s for one in ours.shorts]
    same = ours.alone.text == direct.alone.text
    lines = [
        f"{ours.alone.prompt} tokens alone, in pieces ({ours.alone.cached} of them from the cache at the end): "
        f"the answer is {'the same' if same else 'NOT the same'} as whole.",
        f"{ours.long.prompt} tokens beside short chats ({ours.long.cached} from the cache): "
        f"{'the same' if ours.long.text == direct.long.text else 'another answer'}.",
        f"First token of a short chat beside it: direct {told(direct.shorts[0])}, in pieces {told(ours.shorts[0])}: "
        f"{sooner:.1f} times sooner.",
        f"  The {len(ours.shorts)} of them: median {statistics.median(waits):.2f} s of the processor, longest "
        f"{max(waits):.2f} s.",
        f"First token of the long one: direct {told(direct.long)}, in pieces {told(ours.long)}: {later:.2f} times.",
    ]
    return "\n".join(lines), same and sooner >= SOONER and later <= LATER


def told(answer: Answer) -> str:
    return f"{answer.first_cpu_s:.2f} s of the processor ({answer.first_s:.2f} s)"


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
