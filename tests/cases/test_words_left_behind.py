"""What people wrote and models said is in no log and no metric, and in the store for a minute at most after its end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.cases.rig import BOTH, OAI, OLL, Bench, run_bench, settings
from tests.cases.traces import holding, logged, metrics
from tests.rig.connection import Recorded
from tests.rig.script import CUT, HOLD, Piece, Status, answer, chunk, line, reasoning, tool

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

ASKED, SAID, MODEL = "ZX-PROMPT-7731", "ZX-ANSWER-7731", "ZX-MODEL-7731"
WORDS = (ASKED, SAID, MODEL)
CHATS = ("/v1/chat/completions", "/api/chat", "/v1/responses", "/v1/messages", "/api/generate", "/v1/completions")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["info", "debug"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    async with run_bench(more=settings(log_level=request.param, lease_seconds="5")) as found:
        yield found


def asked(path: str, model: str, text: str = ASKED, **more: Any) -> dict[str, Any]:
    """A request in the form of a path."""
    messages = [{"role": "user", "content": text}]
    forms: dict[str, dict[str, Any]] = {
        "/v1/responses": {"input": messages},
        "/v1/messages": {"messages": messages, "max_tokens": 50},
        "/api/generate": {"prompt": text},
        "/v1/completions": {"prompt": text},
        "/v1/embeddings": {"input": [text, text]},
        "/api/embed": {"input": [text, text]},
        "/api/embeddings": {"prompt": text},
    }
    return {"model": model, "stream": True, **forms.get(path, {"messages": messages}), **more}


def said(request: Recorded) -> list[Piece]:
    return answer("ollama" if request.path.startswith("/api/") else "openai", SAID, SAID)


def parts(request: Recorded, *last: Piece) -> list[Piece]:
    ollama = request.path.startswith("/api/")
    return [line(SAID) if ollama else chunk({"content": SAID}), *last]


async def told(bench: Bench, path: str, body: dict[str, Any] | bytes, query: str = "", **headers: str) -> bytes:
    """All that a client is sent, whether it ends well or breaks off."""
    content, data = body if isinstance(body, bytes) else json.dumps(body).encode(), bytearray()
    url = path + (f"?{query}" if query else "")
    async with bench.client.stream("POST", url, content=content, headers=headers) as response:
        with contextlib.suppress(httpx.RemoteProtocolError):
            async for piece in response.aiter_raw():
                data += piece
    bench.heard.append(bytes(data))
    return bytes(data)


async def left(bench: Bench, path: str, body: dict[str, Any]) -> None:
    """A client that leaves once it has read a word."""
    async with bench.client.stream("POST", path, json=body) as response:
        async for piece in response.aiter_raw():
            if SAID.encode() in piece:
                break


async def no_trace(bench: Bench, words: Sequence[str] = WORDS, most_s: int = 60) -> None:
    assert await bench.site.leftovers(within_s=5) == []
    for word in words:
        assert word not in logged(bench.site)
        assert word not in await metrics(bench)
    lives = await holding(bench.site, words)
    # -2: it went between the two looks at it.
    assert {key: ttl_s for key, ttl_s in lives.items() if ttl_s != -2 and not 0 <= ttl_s <= most_s} == {}
    for key in lives:
        assert not any(word in key for word in words)


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("path", CHATS)
async def test_chats_however_they_end(bench: Bench, path: str, model: str) -> None:
    bench.oai.script = bench.oll.script = said
    assert SAID.encode() in await told(bench, path, asked(path, model))
    assert SAID.encode() in await told(bench, path, asked(path, model, stream=False))
    for status in (500, 400):
        bench.oai.script = bench.oll.script = [Status(status, {"error": "no luck"})]
        assert ASKED.encode() not in await told(bench, path, asked(path, model))
    bench.oai.script = bench.oll.script = lambda request: parts(request, CUT)
    assert ASKED.encode() not in await told(bench, path, asked(path, model))
    bench.oai.script = bench.oll.script = lambda request: parts(request, HOLD)
    await left(bench, path, asked(path, model))
    whole = json.dumps(asked(path, model)).encode()
    for broken in (whole[:-9], whole + b"}", b'{"%b' % ASKED.encode(), f'{{"messages":"{ASKED}"}}'.encode(), whole * 2):
        assert ASKED.encode() not in await told(bench, path, broken)
    await told(bench, path, asked(path, MODEL))
    bench.oai.script = bench.oll.script = said
    await told(bench, path, asked(path, model), query=f"q={ASKED}&{ASKED}")
    await bench.ask(f"/v1/models/{MODEL}", method="GET")
    await bench.ask(f"/{ASKED}/x", method="GET")
    await no_trace(bench)


async def test_thoughts_tools_pictures_and_what_engines_repeat(bench: Bench) -> None:
    call = {"name": "look", "arguments": json.dumps({"for": ASKED})}
    messages = [
        {"role": "system", "content": ASKED},
        {"role": "user", "content": [{"type": "text", "text": ASKED}, picture()]},
        {"role": "assistant", "content": ASKED, "tool_calls": [{"id": "c1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c1", "content": ASKED},
    ]
    tools = [{"type": "function", "function": {"name": "look", "description": ASKED, "parameters": {"title": ASKED}}}]
    body = {"model": OAI, "stream": True, "messages": messages, "tools": tools, "user": ASKED, "metadata": {"x": ASKED}}
    thinks: list[Piece] = [
        reasoning(SAID),
        tool(0, json.dumps({"x": SAID}), call_id="c2", name="look"),
        *answer("openai", SAID),
    ]
    scripts: tuple[list[Piece], ...] = (
        thinks,
        [*thinks[:2], CUT],
        [Status(500, {"error": {"message": f"cannot do {ASKED}: {SAID}"}})],
        [Status(400, {"error": {"message": f"cannot do {ASKED}"}})],
        [Status(200, f"<html>{ASKED} {SAID}</html>", "text/html")],
        [Status(503, ASKED.encode())],
        [b"data: {not json " + ASKED.encode() + b"\n\n"],
        [b"data: " + json.dumps({"error": {"message": SAID}}).encode() + b"\n\n"],
        [b"data: " + json.dumps({"choices": ASKED}).encode() + b"\n\n"],
        [b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": SAID}}]}).encode() + b"\n\n"],
    )
    for script in scripts:
        bench.oai.script = script
        await told(bench, "/v1/chat/completions", body)
    lines: tuple[list[Piece], ...] = (
        [line(SAID, thinking=SAID), CUT],
        [b"{not json " + SAID.encode() + b"\n"],
        [{"error": SAID}],
    )
    for script in lines:
        bench.oll.script = script
        await told(bench, "/api/chat", asked("/api/chat", OLL, think=True))
    await no_trace(bench)


def picture() -> dict[str, Any]:
    data = base64.b64encode(b"\x89PNG" + ASKED.encode()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


async def test_embeddings(bench: Bench) -> None:
    for model in BOTH:
        for path in ("/v1/embeddings", "/api/embed", "/api/embeddings"):
            assert b"embedding" in await told(bench, path, asked(path, model))
            assert ASKED.encode() not in await told(bench, path, asked(path, model, f"poison {ASKED}"))
            assert ASKED.encode() not in await told(bench, path, asked(path, model, f"crash {ASKED}"))
            assert ASKED.encode() not in await told(bench, path, asked(path, MODEL))
    large = f"{ASKED} " * 10_000
    await told(bench, "/v1/embeddings", asked("/v1/embeddings", OAI, large))
    await no_trace(bench)


async def test_bodies_put_ahead_of_a_job_that_is_refused(bench: Bench) -> None:
    """Large ones are in the store before their job is."""
    large = f"{ASKED} " * 20_000
    for path in ("/v1/chat/completions", "/api/chat"):
        bench.oai.script = bench.oll.script = said
        for model in (*BOTH, MODEL):
            await told(bench, path, asked(path, model, large))
        bench.oai.script = bench.oll.script = lambda request: parts(request, HOLD)
        await left(bench, path, asked(path, OAI, large))
    await no_trace(bench)


async def test_those_who_come_back_have_ten_minutes(bench: Bench) -> None:
    """Detached requests, and those with an Idempotency-Key: their answers live on, and nothing longer."""
    bench.oai.script = bench.oll.script = said
    for headers in ({"X-Doublebuffer-Detach": "true"}, {"Idempotency-Key": ASKED}):
        for path, model in (("/v1/chat/completions", OAI), ("/api/chat", OLL)):
            await told(bench, path, asked(path, model), **headers)
            await told(bench, path, asked(path, model), **headers)
    bench.oai.script = lambda request: parts(request, HOLD)
    async with bench.client.stream(
        "POST", "/v1/chat/completions", json=asked("", OAI), headers={"X-Doublebuffer-Detach": "true"}
    ) as response:
        id = response.headers["x-doublebuffer-id"]
        await bench.oai.received()
    reply = await bench.ask(f"/v1/requests/{id}", method="DELETE")
    assert reply.status < 300, reply.body
    await no_trace(bench, most_s=600)


@pytest.mark.slow
@pytest.mark.parametrize("bench", ["info"], indirect=True)
async def test_a_minute_later_nothing_is_left(bench: Bench) -> None:
    bench.oai.script = bench.oll.script = said
    began = time.monotonic()
    for path in (*CHATS, "/v1/embeddings", "/api/embed"):
        for model in BOTH:
            await told(bench, path, asked(path, model, f"{ASKED} later"))
    kept = await holding(bench.site, ["ZX-PROMPT-7731 later", SAID])
    assert kept or time.monotonic() - began > 60
    await asyncio.sleep(61)
    still = await holding(bench.site, WORDS)
    # But what detached requests of the test before have said.
    assert {key: ttl_s for key, ttl_s in still.items() if key not in kept or ttl_s <= 60} == {}
