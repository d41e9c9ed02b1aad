"""The rig itself: the scripted back end sends what it is told and remembers what it was sent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import httpx

from tests.rig.engine import Engine, expected
from tests.rig.script import CUT, FIN, RST, Wait
from tests.rig.scripted import Scripted

ROOT = Path(__file__).parents[2]


async def test_pieces_leave_one_by_one() -> None:
    go = asyncio.Event()
    async with Scripted(script=["one", Wait(go), "two", FIN]) as engine, httpx.AsyncClient(trust_env=False) as client:
        async with client.stream("POST", f"{engine.url}/v1/chat/completions", json={"a": 1}) as response:
            pieces = response.aiter_raw()
            assert b"one" in await anext(pieces)
            go.set()
            assert b"two" in await anext(pieces)
        request = engine.requests[0]
        assert (request.method, request.path, request.json()) == ("POST", "/v1/chat/completions", {"a": 1})
        assert request.headers["content-type"] == "application/json"
        async with asyncio.timeout(1):
            await request.closed.wait()


async def test_ways_to_break_off() -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for word in (RST, CUT):
            async with Scripted(script=["one", word]) as engine:
                try:
                    await client.post(f"{engine.url}/api/chat", json={})
                except httpx.TransportError:
                    continue
                raise AssertionError(f"{word} went unnoticed")


async def test_continues_from_a_beginning() -> None:
    engine = Engine("llamacpp")
    messages = [{"role": "user", "content": "marker:abc words:4"}, {"role": "assistant", "content": "abc 1 2"}]
    body = json.dumps({"messages": messages, "stream": True}).encode()
    said = [piece async for piece in engine.script(body)]
    text = "".join(
        piece["choices"][0]["delta"].get("content", "")
        for piece in said
        if isinstance(piece, dict) and piece["choices"]
    )
    assert "abc 1 2" + text == expected("marker:abc words:4")


async def test_as_a_process() -> None:
    command = [sys.executable, "-m", "tests.rig.scripted", "--flavour", "ollama", "--port", "0", "--fixed", "same"]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(await process.stdout.readline())}"
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{url}/api/tags")).json()["models"][0]["name"] == "m-oll"
            script = [{"raw": "x\n"}, {"sleep": 0.01}, "y", {"done": True}]
            await client.post(f"{url}/_script", json=script)
            first = await client.post(f"{url}/api/chat", json={"stream": True})
            assert [line[:20] for line in first.text.splitlines()] == ["x", '{"model":"m","create', '{"done":true}']
            second = await client.post(f"{url}/api/chat", json={"stream": False})
            assert second.json()["message"]["content"] == "same"
            told = (await client.get(f"{url}/_recorded")).json()
            assert [json.loads(request["body"]) for request in told["requests"]] == [
                {"stream": True},
                {"stream": False},
            ]
            await client.post(f"{url}/_reset")
            assert (await client.get(f"{url}/_recorded")).json()["requests"] == []
    finally:
        process.kill()
        await process.wait()
