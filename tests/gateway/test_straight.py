"""Words reach a client in the turn in which they come; a client that does not read them makes them wait, in order."""

from __future__ import annotations

import asyncio

import pytest

from buffer.job import Content, Finish, Usage
from buffer.records import Held
from doublebuffer.exchange import Exchange
from gateway.delivery import Timing
from tests.gateway.rig import Wire, ollama, rig, until


async def test_one_that_reads_again_has_each_word_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    straight, flows = 0, True
    write = Exchange.write

    def counted(self: Exchange, data: bytes) -> None:
        nonlocal straight
        straight += 1
        write(self, data)

    monkeypatch.setattr(Exchange, "write", counted)
    monkeypatch.setattr(Exchange, "flows", property(lambda _: flows))
    async with rig(ours=True) as r:
        wire = await Wire.post(r.port, "/v1/chat/completions", ollama(stream=True), "Connection: close")
        job = await r.hands.take()
        for number in range(60):
            flows = number % 20 < 10
            r.hands.say(job, f"<{number}>")
            await wire.until(f"<{number}>".encode())
        r.hands.say(job, Finish("stop"), Usage(1, 60))
        await r.hands.end(job)
        assert b"[DONE]" in await wire.rest()
    assert 20 < straight < 40


async def test_a_stream_that_goes_straight_on_is_kept_alive_where_it_falls_silent() -> None:
    async with rig(ours=True, timing=Timing(first_byte_s=0.2, heartbeat_s=0.2)) as r:
        wire = await Wire.post(r.port, "/v1/chat/completions", ollama(stream=True), "Connection: close")
        job = await r.hands.take()
        for number in range(30):
            r.hands.say(job, f"<{number}>")
            assert b"keep-alive" not in await wire.until(f"<{number}>".encode())
            await asyncio.sleep(0.02)
        await wire.until(b": keep-alive\n\n")
        r.hands.say(job, Content("!"))
        await wire.until(b'"!"')
        await r.hands.end(job)


async def test_one_that_leaves_in_the_middle_has_its_job_cancelled() -> None:
    async with rig(ours=True) as r:
        wire = await Wire.post(r.port, "/v1/chat/completions", ollama(stream=True))
        job = await r.hands.take()
        for number in range(3):
            r.hands.say(job, f"<{number}>")
            await wire.until(f"<{number}>".encode())
        await wire.leave()
        held = Held(job.id, job.fence, r.hands.backend)

        async def told_to_stop() -> bool:
            (renewed,) = await r.lanes.renew(r.hands.name, [held], 30)
            return renewed.status == "cancel"

        await until(told_to_stop)
        await r.counted("openai", "fast", "cancelled")
