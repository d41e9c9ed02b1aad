"""The load on openai-rq, by its own client. Run by the Python that it is installed in, so it imports nothing of ours:
one line of JSON in for each load, one out with what came of it (see ``bench.cost.load``).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import redis.asyncio
from openai_rq import AsyncOpenAIRQ  # type: ignore[import-not-found]

ANSWER_S = 60.0


async def _client(openai: Any, ask: dict[str, Any], heard: dict[str, Any], wait_s: float) -> None:
    await asyncio.sleep(wait_s)
    until_at = heard["began_at"] + wait_s + ask["for_s"]
    while True:
        try:
            async with asyncio.timeout(ANSWER_S):
                tokens = await (_stream if ask["stream"] else _whole)(openai, ask, heard)
        except Exception:  # noqa: BLE001 - whatever the peer's client raises is an answer that was lost
            tokens = -1
        heard["answers"] += tokens == ask["tokens"]
        heard["lost"] += tokens != ask["tokens"]
        if time.perf_counter() >= until_at or tokens < 0:
            return


async def _whole(openai: Any, ask: dict[str, Any], heard: dict[str, Any]) -> int:
    asked_at = time.perf_counter()
    answer = await openai.chat.completions.create(model=ask["model"], messages=_messages(ask))
    tokens: int = answer.choices[0].message.content.count(ask["token"])
    heard["whole_s"].append(time.perf_counter() - asked_at)
    heard["tokens"] += tokens
    return tokens


async def _stream(openai: Any, ask: dict[str, Any], heard: dict[str, Any]) -> int:
    asked_at = last_at = time.perf_counter()
    tokens = 0
    async for chunk in await openai.chat.completions.create(model=ask["model"], messages=_messages(ask), stream=True):
        if not (chunk.choices and chunk.choices[0].delta.content):
            continue
        now_at = time.perf_counter()
        if tokens:
            heard["gaps_s"].append(now_at - last_at)
        else:
            heard["first_s"].append(now_at - asked_at)
        tokens, last_at = tokens + 1, now_at
    heard["whole_s"].append(time.perf_counter() - asked_at)
    heard["tokens"] += tokens
    return tokens


def _messages(ask: dict[str, Any]) -> list[dict[str, str]]:
    return [{"role": "user", "content": ask["prompt"]}]


async def main(redis_url: str) -> None:
    client = redis.asyncio.Redis.from_url(redis_url, max_connections=1024)
    openai = AsyncOpenAIRQ(redis_client=client)
    while line := await asyncio.to_thread(sys.stdin.readline):
        ask = json.loads(line)
        heard: dict[str, Any] = {
            **dict.fromkeys(("answers", "lost", "tokens"), 0),
            **{name: [] for name in ("whole_s", "first_s", "gaps_s")},
            "began_at": time.perf_counter(),
        }
        clients = ask["clients"]
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(_client(openai, ask, heard, ask["spread_s"] * number / clients))
        heard["ended_at"] = time.perf_counter()
        print(json.dumps(heard), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
