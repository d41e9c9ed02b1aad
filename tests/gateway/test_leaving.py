"""Clients that go before their answer has come, wherever it is by then."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
import uvloop

from buffer.job import Finish
from buffer.records import Held
from gateway.delivery import Timing
from gateway.intake import Order
from tests.gateway.rig import Rig, Wire, ollama, rig, until

EACH = pytest.mark.parametrize(
    ("path", "stream"),
    [("/api/chat", True), ("/api/chat", False), ("/v1/chat/completions", True), ("/v1/chat/completions", False)],
)


async def told_to_stop(r: Rig) -> None:
    """Waits until the worker is told that nobody wants its job's answer any more."""
    job = r.hands.granted[-1]
    held = Held(job.id, job.fence, r.hands.backend)

    async def told() -> bool:
        (renewed,) = await r.lanes.renew(r.hands.name, [held], 30)
        return renewed.status == "cancel"

    await until(told)


async def nobody_waits(r: Rig) -> None:
    async def nobody() -> bool:
        return not any(depth.waiting for depth in (await r.lanes.depths()).values())

    await until(nobody)


@EACH
async def test_from_the_queue(path: str, stream: bool) -> None:
    async with rig() as r:
        wire = await Wire.post(r.port, path, ollama(stream=stream))
        await r.waiting(1)
        await wire.leave()
        await nobody_waits(r)
        await r.counted("ollama" if path == "/api/chat" else "openai", "fast", "cancelled")


@EACH
async def test_before_its_first_piece(path: str, stream: bool) -> None:
    async with rig() as r:
        wire = await Wire.post(r.port, path, ollama(stream=stream))
        await r.hands.take()
        await wire.leave()
        await told_to_stop(r)
        await r.counted("ollama" if path == "/api/chat" else "openai", "fast", "cancelled")


@EACH
async def test_in_the_middle(path: str, stream: bool) -> None:
    async with rig() as r:
        wire = await Wire.post(r.port, path, ollama(stream=stream))
        job = await r.hands.take()
        r.hands.say(job, "Hel")
        if stream:
            await wire.until(b"Hel")
        await wire.leave()
        await told_to_stop(r)
        await r.counted("ollama" if path == "/api/chat" else "openai", "fast", "cancelled")


async def test_its_chat_is_not_held_on_to() -> None:
    words = "Nobody else in this process has ever said these words."
    async with rig(queue_timeout_seconds=600) as r:
        wire = await Wire.post(r.port, "/api/chat", ollama(messages=[{"role": "user", "content": words}]))
        await r.waiting(1)
        await wire.leave()
        await r.counted("ollama", "fast", "cancelled")

        async def gone() -> bool:
            gc.collect()
            orders = [thing for thing in gc.get_objects() if isinstance(thing, Order)]
            return not any(words.encode() in order.job.body for order in orders)

        await until(gone)


async def test_between_heartbeats() -> None:
    async with rig(timing=Timing(first_byte_s=0.01)) as r:
        wire = await Wire.post(r.port, "/api/chat", ollama())
        await wire.until(b'"done":false}\n')
        await wire.leave()
        await nobody_waits(r)


async def test_a_reader_that_has_stopped_reading() -> None:
    """The watch for its leaving goes on while an answer cannot be sent."""
    async with rig() as r:
        wire = await Wire.post(r.port, "/api/chat", ollama())
        job = await r.hands.take()
        for _ in range(64):
            r.hands.say(job, "x" * 65536)
            await asyncio.sleep(0)
        await wire.until(b"\r\n\r\n")
        wire.writer.transport.abort()
        await told_to_stop(r)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_while_its_job_is_being_submitted(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request is cancelled just then, as a server does that shuts down: no job is left."""
    async with rig() as r:
        reached, go_on = asyncio.Event(), asyncio.Event()
        submit = type(r.lanes).submit

        async def slow(self: Any, *args: Any, **more: Any) -> Any:
            if moment == "after":
                found = await submit(self, *args, **more)
            reached.set()
            await go_on.wait()
            return found if moment == "after" else await submit(self, *args, **more)

        monkeypatch.setattr(type(r.lanes), "submit", slow)
        wire = await Wire.post(r.port, "/api/chat", ollama())
        await reached.wait()
        await wire.leave()
        go_on.set()
        await r.counted("ollama", "fast", "cancelled")
        await nobody_waits(r)


async def test_a_slow_reader_slows_its_own_engine() -> None:
    """What is sent and not read is held by nobody without bound: the worker is told to wait, and to go on."""
    async with rig() as r, asyncio.TaskGroup() as group:
        await r.lanes.renew(r.hands.name, [], 30)
        wire = await Wire.post(r.port, "/api/chat", ollama(), "Connection: close")
        job = await r.hands.take()
        words: list[str] = []
        last = "0-0"

        async def heard(word: str) -> bool:
            nonlocal last
            last, told = await r.lanes.controls(r.hands.name, last, 0.05)
            words.extend(control.kind for control in told)
            return word in words

        sent = 0
        while not await heard("pause"):
            sent += 1
            assert sent < 1000, "nobody was told to wait"
            r.hands.say(job, "x" * 65536)
        reading = group.create_task(wire.rest())
        await until(lambda: heard("go"))
        r.hands.say(job, Finish("stop"))
        await r.hands.end(job)
        got = await reading
        assert got.count(b"x") >= sent * 65536
        assert b'"done":true' in got


@EACH
def test_with_its_next_request_sent_already(path: str, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The server then reads nothing more, and finds out when it writes."""

    async def case() -> None:
        async with rig(timing=Timing(first_byte_s=0.05, heartbeat_s=0.05)) as r:
            wire = await Wire.post(r.port, path, ollama(stream=stream))
            job = await r.hands.take()
            wire.writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            await wire.writer.drain()
            await asyncio.sleep(0.1)
            await wire.leave()
            if not stream:
                r.hands.say(job, "word", Finish("stop"))
                await r.hands.end(job)
            await r.counted("ollama" if path == "/api/chat" else "openai", "fast", "cancelled" if stream else "ok")

    uvloop.run(case())
    assert "Traceback" not in caplog.text
    assert "Exception in ASGI" not in caplog.text
