"""Signs of life in streams in which nothing else is said."""

from __future__ import annotations

import asyncio

import pytest

from buffer.job import End, Failure, Reasoning
from gateway.delivery import Timing
from tests.gateway.rig import Wire, ollama, rig

BOTH = pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
BROKEN = End("failed", Failure("The engine went away.", 502))


@BOTH
async def test_heartbeats_while_it_waits(path: str) -> None:
    timing = Timing(first_byte_s=0.05, heartbeat_s=0.02)
    async with rig(timing=timing) as r, asyncio.TaskGroup() as group:
        wire = await Wire.post(r.port, path, ollama(stream=True), "Connection: close")
        head = await wire.until(b"\r\n\r\n")
        assert b" 200 " in head
        assert b"x-doublebuffer-backend" not in head.lower()
        beat = b'"content":""},"done":false}\n' if path == "/api/chat" else b": keep-alive\n\n"
        for _ in range(3):
            await wire.until(beat)
        rest = group.create_task(wire.rest())
        await r.hands.answer("hi")
        assert b'"hi"' in await rest


async def test_heartbeats_while_nothing_of_what_comes_is_for_the_client() -> None:
    async with rig(timing=Timing(first_byte_s=0.4, heartbeat_s=0.4)) as r:
        body = ollama(stream=True, include_reasoning=False)
        wire = await Wire.post(r.port, "/v1/chat/completions", body, "Connection: close")
        job = await r.hands.take()
        hearing = asyncio.create_task(wire.until(b": keep-alive\n\n"))
        while not hearing.done():
            r.hands.say(job, Reasoning("hm"))
            await asyncio.sleep(0.01)
        assert b"hm" not in await hearing
        await r.hands.end(job)


@BOTH
async def test_after_a_heartbeat_a_failure_is_in_the_stream(path: str) -> None:
    async with rig(timing=Timing(first_byte_s=0.02)) as r:
        wire = await Wire.post(r.port, path, ollama(stream=True), "Connection: close")
        await wire.until(b"\r\n\r\n")
        await r.hands.end(await r.hands.take(), BROKEN)
        got = await wire.rest()
        assert b"The engine went away." in got
        assert got.endswith(b"0\r\n\r\n") is (path != "/api/chat")
