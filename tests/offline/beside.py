"""``python -m tests.offline.beside``: people's chats beside an offline batch: real processes, a simulated engine.

Three times: the batch alone, the people alone, both. Best run as ``chrt -r 1 python -m tests.offline.beside`` where
other programs want the same cores: what is measured are milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import statistics
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import httpx
import openai

from tests.offline.many import CHATS, begin
from tests.rig.processes import Process, run_command
from tests.rig.redis_server import run_redis

MODEL = "simulated-qwen3:14b"
WARM_S = 6.0
"""Of modelled time, before it is measured."""
_WORDS = ("river", "stone", "cloud", "lamp", "paper", "tower", "garden", "silver", "window", "market", "engine")
_SAID = re.compile(r'"(?:content|reasoning_content)": ?"[^"]')


@dataclass
class Site:
    engine: Process
    gateway: Process
    scale: float
    """Wall seconds for a modelled one."""

    async def tokens(self) -> float:
        """Tokens of answers that the engine has made so far."""
        async with httpx.AsyncClient(trust_env=False) as client:
            text = (await client.get(f"{self.engine.url}/metrics")).text
        found = re.findall(r"^vllm:generation_tokens_total\{[^}]*\} ([0-9.e+]+)$", text, re.MULTILINE)
        return sum(map(float, found))


@asynccontextmanager
async def installation(scale: float, workers: int) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(run_redis())
        flags = ("--port", "0", "--profile", "rtx4090-vllm", "--model", MODEL, "--time-scale", str(scale))
        engine = await stack.enter_async_context(run_command("simulate", *flags, "--ignore-eos"))
        await engine.has_said("address")
        environment = {
            "REDIS_URL": redis.url,
            "DOUBLEBUFFER_BACKENDS": json.dumps([{"name": "engine", "kind": "vllm", "url": engine.url}]),
            "DOUBLEBUFFER_LOG_LEVEL": "warning",
        }
        gateway = await stack.enter_async_context(run_command("gateway", "--port", "0", environment=environment))
        for name in (*["worker"] * workers, "batch-worker"):
            await stack.enter_async_context(run_command(name, environment=environment))
        await gateway.is_healthy("/health/ready")
        yield Site(engine, gateway, scale)


def text(chance: random.Random, tokens: int) -> str:
    """About so many tokens, that no prompt before had."""
    words = [str(chance.getrandbits(48))]
    while sum(map(len, words)) + len(words) < 4 * tokens:
        words.append(chance.choice(_WORDS))
    return " ".join(words)


@dataclass
class People:
    """Short chats at random times, each of another person's: the same in each run."""

    rate: float
    """A second of modelled time."""
    prompt: tuple[int, int]
    answer: tuple[int, int]
    firsts_s: list[float] = field(default_factory=list)
    tokens: int = 0

    async def come(self, site: Site, span_s: float) -> None:
        """For so long, in modelled seconds; returns once all are answered."""
        chance = random.Random(8)
        loop = asyncio.get_running_loop()
        begin_at, at_s, number = loop.time(), 0.0, 0
        salt = random.Random(time.time_ns())
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
        async with (
            httpx.AsyncClient(trust_env=False, timeout=120, limits=limits) as client,
            asyncio.TaskGroup() as group,
        ):
            while (at_s := at_s + chance.expovariate(self.rate)) < span_s:
                history = text(salt, chance.randint(*self.prompt))
                messages = [{"role": "user", "content": history}, {"role": "assistant", "content": "Yes."}]
                messages.append({"role": "user", "content": "And what else?"})
                body = {"model": MODEL, "messages": messages, "max_tokens": chance.randint(*self.answer)}
                await asyncio.sleep(begin_at + at_s * site.scale - loop.time())
                number += 1
                group.create_task(self._chat(site, client, body | {"stream": True}, f"person-{number}"))

    async def _chat(self, site: Site, client: httpx.AsyncClient, body: dict[str, object], who: str) -> None:
        asked_at, first = time.perf_counter(), True
        url, headers = f"{site.gateway.url}{CHATS}", {"x-openwebui-user-id": who}
        async with client.stream("POST", url, json=body, headers=headers) as answer:
            assert answer.status_code == 200, (await answer.aread())[:300]
            assert answer.headers["x-doublebuffer-lane"] == "fast", answer.headers["x-doublebuffer-lane"]
            async for piece in answer.aiter_lines():
                if first and _SAID.search(piece):
                    first = False
                    self.firsts_s.append((time.perf_counter() - asked_at) / site.scale)
        self.tokens += int(str(body["max_tokens"]))

    def p95_ms(self) -> float:
        return sorted(self.firsts_s)[math.ceil(0.95 * len(self.firsts_s)) - 1] * 1e3

    def p50_ms(self) -> float:
        return statistics.median(self.firsts_s) * 1e3


def lines(count: int, prompt: tuple[int, int], answer: tuple[int, int]) -> list[dict[str, object]]:
    chance = random.Random(time.time_ns())
    return [
        {
            "custom_id": f"id-{number}",
            "method": "POST",
            "url": CHATS,
            "body": {
                "model": MODEL,
                "messages": [{"role": "user", "content": text(chance, chance.randint(*prompt))}],
                "max_tokens": chance.randint(*answer),
            },
        }
        for number in range(count)
    ]


async def ended(client: openai.AsyncOpenAI, id: str) -> None:
    while (batch := await client.batches.retrieve(id)).status != "completed":
        assert batch.status in ("validating", "in_progress", "finalizing"), batch
        await asyncio.sleep(0.5)
    counts = batch.request_counts
    assert counts is not None
    assert counts.completed == counts.total, counts


async def running(client: openai.AsyncOpenAI, id: str, done: int) -> None:
    """Waits until so many lines are."""
    while (counts := (await client.batches.retrieve(id)).request_counts) is None or counts.completed < done:
        await asyncio.sleep(0.1)


async def rate(site: Site, until: Awaitable[None]) -> float:
    """Tokens a modelled second, for so long."""
    before, began_at = await site.tokens(), time.perf_counter()
    await until
    return (await site.tokens() - before) / ((time.perf_counter() - began_at) / site.scale)


async def main(asked: argparse.Namespace) -> int:
    prompt, answer = (tuple(map(int, asked.line.split(",")[at : at + 2])) for at in (0, 2))
    chat = tuple(map(int, asked.chat.split(",")))
    alone, beside = (People(asked.rate, chat[:2], chat[2:]) for _ in range(2))  # type: ignore[arg-type]
    async with installation(asked.scale, asked.workers) as site:
        client = openai.AsyncOpenAI(base_url=f"{site.gateway.url}/v1", api_key="none", max_retries=5)
        # The first to run, since people are heeded for a minute after they have left.
        first = await begin(client, CHATS, lines(asked.lines // 4, prompt, answer))  # type: ignore[arg-type]
        await running(client, first.id, 30)
        batch_rate = await rate(site, running(client, first.id, round(asked.lines / 4 * 0.9)))
        await ended(client, first.id)
        await alone.come(site, asked.span)
        began_at = time.perf_counter()
        second = await begin(client, CHATS, lines(asked.lines, prompt, answer))  # type: ignore[arg-type]
        await running(client, second.id, 30)
        people = asyncio.create_task(beside.come(site, asked.span))
        await asyncio.sleep(WARM_S * site.scale)
        both_rate = await rate(site, asyncio.sleep((asked.span - 2 * WARM_S) * site.scale))
        await people
        counts = (await client.batches.retrieve(second.id)).request_counts
        assert counts is not None
        still = counts.total - counts.completed
        await ended(client, second.id)
        took_s = (time.perf_counter() - began_at) / site.scale
    longer, share = beside.p95_ms() / alone.p95_ms(), both_rate / batch_rate
    told = [
        f"simulated rtx4090-vllm, {asked.workers} workers, {asked.scale:g} s for a modelled second",
        f"load of this machine: {os.getloadavg()[0]:.1f}",
        f"people: {asked.rate:g} chats/s for {asked.span:g} s, {len(alone.firsts_s)} and {len(beside.firsts_s)}",
        f"batch: {asked.lines} lines in {took_s:.0f} s, {still} of them left when the people had gone",
        f"first token of fast, p50: {alone.p50_ms():.1f} ms alone, {beside.p50_ms():.1f} beside",
        f"p95: {alone.p95_ms():.1f} ms alone, {beside.p95_ms():.1f} beside: {longer:.2f} x (at most 1.2)",
        f"tokens/s: {batch_rate:.0f} the batch alone, {both_rate:.0f} both: {share:.2f} x (at least 0.9)",
    ]
    print("\n".join(told))
    return 0 if longer <= 1.2 and share >= 0.9 and still else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=5000)
    parser.add_argument("--line", default="64,256,32,128", help="least and most tokens of a line's prompt and answer")
    parser.add_argument("--rate", type=float, default=2.0, help="people's chats in a modelled second")
    parser.add_argument("--chat", default="20,400,32,256", help="least and most tokens of a chat's prompt and answer")
    parser.add_argument("--span", type=float, default=150.0, help="modelled seconds that people come for")
    parser.add_argument("--scale", type=float, default=1.0, help="wall seconds for a modelled one")
    parser.add_argument("--workers", type=int, default=2)
    raise SystemExit(asyncio.run(main(parser.parse_args())))
