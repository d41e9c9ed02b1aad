"""Questions drawn by Zipf's law against a whole installation with the answer cache: what the engine is spared, beside
what a perfect cache with the same lifetime would spare it.

``python -m tests.cache.zipf`` asks 10,000 questions drawn from 500, over two gateways, both APIs, streamed and whole,
and checks each answer. It ends with 0 if no more than two in a hundred are asked of the engine beyond the perfect one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.acceptance.site import Site, backend, run_site
from tests.rig.connection import Recorded
from tests.rig.processes import run_command
from tests.rig.script import DONE, Piece, Sleep, finish, role, usage
from tests.rig.scripted import Scripted

MODEL = "m-zipf"
TOKEN_S = 0.01
MOST_BEYOND = 0.02


def words(question: int) -> list[str]:
    """The engine's answer to a question, a token each."""
    return [f"q{question}w{place} " for place in range(5 + question * 7919 % 25)]


def prompt(question: int) -> str:
    return f"question number {question}"


async def answering(request: Recorded) -> AsyncIterator[Piece]:
    question = int(request.json()["messages"][-1]["content"].rpartition(" ")[2])
    said = words(question)
    yield role()
    for word in said:
        yield Sleep(TOKEN_S)
        yield word
    yield finish("stop")
    yield usage(7, len(said))
    yield DONE


@dataclass(frozen=True)
class Plan:
    questions: int = 10_000
    different: int = 500
    ttl_s: float = 10.0
    per_s: float = 120.0
    seed: int = 1

    def draw(self) -> list[int]:
        weights = [1 / rank for rank in range(1, self.different + 1)]
        return random.Random(self.seed).choices(range(self.different), weights, k=self.questions)

    def instants(self) -> list[float]:
        """Poisson arrivals, in seconds from the start."""
        chance = random.Random(self.seed + 1)
        return list(itertools.accumulate(chance.expovariate(self.per_s) for _ in range(self.questions)))


@dataclass
class Account:
    """What was asked, and what of it reached the engine."""

    plan: Plan
    asked: list[tuple[float, int]] = field(default_factory=list)
    """Instant and question, as they were sent."""
    took_s: float = 0.0
    calls: int = 0
    """Requests that the engine got,"""
    tokens: int = 0
    """and tokens that it said."""
    results: dict[str, float] = field(default_factory=dict)
    hits_ms: list[float] = field(default_factory=list)

    def perfect(self) -> tuple[int, int]:
        """Requests and tokens of the engine with a cache that knows an answer from the moment it is asked for until its
        lifetime after its last word.
        """
        until: dict[int, float] = {}
        calls = tokens = 0
        for at, question in self.asked:
            if at > until.get(question, -1.0):
                calls += 1
                tokens += len(words(question))
                until[question] = at + len(words(question)) * TOKEN_S + self.plan.ttl_s
        return calls, tokens

    @property
    def all_tokens(self) -> int:
        return sum(len(words(question)) for _, question in self.asked)

    @property
    def beyond(self) -> float:
        """The part of all requests that reached the engine and would not have with a perfect cache; the larger one of
        requests and tokens.
        """
        calls, tokens = self.perfect()
        return max((self.calls - calls) / len(self.asked), (self.tokens - tokens) / self.all_tokens)

    def page(self) -> str:
        calls, tokens = self.perfect()
        asked, said = len(self.asked), self.all_tokens
        hits = sorted(self.hits_ms)
        ways = {"no cache": (asked, said), "a perfect one": (calls, tokens), "this one": (self.calls, self.tokens)}
        plan = self.plan
        rows = [
            f"{asked} questions drawn from {plan.different}, {plan.per_s:g} a second, TTL {plan.ttl_s:g} s, "
            f"in {self.took_s:.1f} s",
            "",
            "|  | engine's requests | spared | engine's tokens | spared |",
            "| --- | --- | --- | --- | --- |",
            *(f"| {way} | {n} | {1 - n / asked:.2%} | {k} | {1 - k / said:.2%} |" for way, (n, k) in ways.items()),
            "",
            "by result: " + ", ".join(f"{name} {count:g}" for name, count in sorted(self.results.items())),
        ]
        if hits:
            rows.append(f"hits: median {hits[len(hits) // 2]:.1f} ms, p99 {hits[len(hits) * 99 // 100]:.1f} ms")
        return "\n".join(rows)


async def run(plan: Plan) -> Account:
    account = Account(plan)
    async with contextlib.AsyncExitStack() as stack:
        engine = await stack.enter_async_context(Scripted("openai", kind="vllm", models=[MODEL], script=answering))
        settings = {
            "DOUBLEBUFFER_CACHE": "on",
            "DOUBLEBUFFER_CACHE_TTL_SECONDS": str(plan.ttl_s),
            "DOUBLEBUFFER_WINDOW_MS": "0",
            "DOUBLEBUFFER_MAX_IN_FLIGHT": "64",
        }
        site = await stack.enter_async_context(run_site([backend("e", "vllm", engine.url)], settings=settings))
        other = await stack.enter_async_context(run_command("gateway", "--port", "0", environment=site.environment))
        await other.is_healthy("/health/ready")
        limits = httpx.Limits(max_connections=400)
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False, timeout=60, limits=limits))
            for url in (site.url, other.url)
        ]
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for place, (question, at) in enumerate(zip(plan.draw(), plan.instants(), strict=True)):
                await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
                account.asked.append((time.perf_counter() - began, question))
                group.create_task(_ask(clients[place % 2], place, question, account))
        account.took_s = time.perf_counter() - began
        account.calls = len(engine.requests)
        said = [int(request.json()["messages"][-1]["content"].rpartition(" ")[2]) for request in engine.requests]
        account.tokens = sum(len(words(question)) for question in said)
        account.results = await _results(site, clients)
        assert await site.leftovers() == []
    return account


async def _ask(client: httpx.AsyncClient, place: int, question: int, account: Account) -> None:
    """Asks in one of four ways, and checks the answer."""
    ollama, stream = place // 2 % 2 == 0, place // 4 % 2 == 0
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt(question)}],
        "stream": stream,
    }
    body |= {"options": {"temperature": 0}} if ollama else {"temperature": 0}
    began = time.perf_counter()
    reply = await client.post("/api/chat" if ollama else "/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    assert answer_text(reply, ollama=ollama, stream=stream) == "".join(words(question)), reply.text
    if reply.headers["x-doublebuffer-cache"] == "hit":
        account.hits_ms.append((time.perf_counter() - began) * 1000)


def answer_text(reply: httpx.Response, *, ollama: bool, stream: bool) -> str:
    if ollama:
        return "".join(json.loads(line)["message"]["content"] for line in reply.text.splitlines())
    if not stream:
        return str(reply.json()["choices"][0]["message"]["content"])
    data = [line[6:] for line in reply.text.splitlines() if line.startswith("data: {")]
    return "".join(json.loads(one)["choices"][0]["delta"].get("content") or "" for one in data)


async def _results(site: Site, clients: Sequence[httpx.AsyncClient]) -> dict[str, float]:
    found: dict[str, float] = {}
    for client in clients:
        for line in (await client.get("/metrics")).text.splitlines():
            if line.startswith('doublebuffer_cache_total{result="'):
                name, _, value = line.partition('"')[2].partition('"} ')
                found[name] = found.get(name, 0.0) + float(value)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cache.zipf", description=__doc__)
    parser.add_argument("--questions", type=int, default=Plan.questions)
    parser.add_argument("--different", type=int, default=Plan.different)
    parser.add_argument("--ttl", type=float, default=Plan.ttl_s, help="seconds")
    parser.add_argument("--per-second", type=float, default=Plan.per_s)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    asked = parser.parse_args()
    account = asyncio.run(run(Plan(asked.questions, asked.different, asked.ttl, asked.per_second, asked.seed)))
    print(account.page())
    good = account.beyond <= MOST_BEYOND
    print(f"{account.beyond:.2%} of the work beyond a perfect cache's: {'good' if good else 'TOO MUCH'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
