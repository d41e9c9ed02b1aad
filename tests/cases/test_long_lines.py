"""Events of many megabytes: one line of a stream that no client in between may find too long."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.cases.rig import BOTH, OAI, Bench
from tests.cases.scripts import oai, oll
from tests.rig.script import DONE, done, finish, line, reasoning, role, tool

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

LETTERS = 6 * 1024 * 1024
APIS = ("ollama", "openai")


async def answers_meanwhile(bench: Bench, until: asyncio.Event) -> float:
    """The longest time that a sign of life took."""
    longest = 0.0
    while not until.is_set():
        began = time.perf_counter()
        assert (await bench.client.get("/api/version")).status_code == 200
        longest = max(longest, time.perf_counter() - began)
        await asyncio.sleep(0.02)
    return longest


async def timed(bench: Bench, api: str, model: str, **fields: Any) -> Any:
    """The answer, which took less than 15 s, and during which the gateway had time for others."""
    over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(answers_meanwhile(bench, over))
        reply = await bench.chat(api, model, **fields)
        over.set()
    assert reply.status == 200, reply.body[:500]
    assert reply.took_s < 15, reply.took_s
    assert watch.result() < 1, watch.result()
    assert b'"error"' not in reply.body[-2000:]
    return reply


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("api", APIS)
async def test_six_million_letters_in_one_event(bench: Bench, api: str, model: str, stream: bool) -> None:
    text = "a" * LETTERS
    bench.oai.script = lambda request: oai(request, text)
    bench.oll.script = lambda request: oll(request, text)
    reply = await timed(bench, api, model, stream=stream)
    content = reply.content
    assert len(content) == LETTERS
    assert content.count("a") == LETTERS


@pytest.mark.parametrize("text", ["é" * 2_000_000, '"\\\n' * 1_000_000, "🌍 " * 1_000_000], ids=["é", "escaped", "🌍"])
@pytest.mark.parametrize("model", BOTH)
async def test_letters_that_take_more_room(bench: Bench, model: str, text: str) -> None:
    bench.oai.script = lambda request: oai(request, text)
    bench.oll.script = lambda request: oll(request, text)
    reply = await timed(bench, "ollama", model)
    assert reply.content == text


@pytest.mark.parametrize("api", APIS)
async def test_a_long_thought(bench: Bench, api: str) -> None:
    text = "b" * LETTERS
    bench.oai.script = [role(), reasoning(text), "ok", finish(), DONE]
    bench.oll.script = [line(thinking=text), "ok", done()]
    for model in BOTH:
        reply = await timed(bench, api, model, stream=True, think=True if api == "ollama" else ...)
        assert reply.content == "ok"
        assert reply.thinking == text


@pytest.mark.parametrize("api", APIS)
async def test_long_arguments_of_a_tool(bench: Bench, api: str) -> None:
    text = "c" * LETTERS
    arguments = json.dumps({"file": text})
    calls = [tool(0, call_id="c0", name="w"), tool(0, arguments)]
    bench.oai.script = [role(), *calls, finish("tool_calls"), DONE]
    tools = [{"type": "function", "function": {"name": "w", "parameters": {"type": "object"}}}]
    reply = await timed(bench, api, OAI, stream=False, tools=tools)
    told = reply.json()
    message = told["message"] if api == "ollama" else told["choices"][0]["message"]
    (made,) = message["tool_calls"]
    found = made["function"]["arguments"]
    assert (found if api == "ollama" else json.loads(found)) == {"file": text}
