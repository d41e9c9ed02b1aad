"""Clients that leave while their request waits: no engine ever hears of it, and who stands behind moves up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import redis.asyncio

from tests.cases.leaving import WAYS, Line, body
from tests.cases.rig import OAI, Bench, run_bench, settings
from tests.cases.scripts import oai
from tests.rig.connection import Recorded
from tests.rig.script import DONE, Piece, Sleep, Wait, finish, role

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

ENDS_S = 1.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(more=settings(max_in_flight="1"), workers=2) as found:
        yield found


class Busy:
    """The engine streams JOB-A until the test lets it end, and answers others at once."""

    def __init__(self, bench: Bench) -> None:
        self.over = asyncio.Event()
        self.ended_at = 0.0
        bench.oai.script = self._script

    def _script(self, request: Recorded) -> list[Piece] | AsyncIterator[Piece]:
        return self._long() if b"JOB-A" in request.body else oai(request, "o", "k")

    async def _long(self) -> AsyncIterator[Piece]:
        yield role()
        while not self.over.is_set():
            yield "x "
            yield Sleep(0.05)
        yield Wait(self.over)
        yield finish()
        self.ended_at = time.monotonic()
        yield DONE


async def depth(bench: Bench, wanted: float, *, within_s: float) -> None:
    """Waits until so many wait."""
    async with asyncio.timeout(within_s):
        while await bench.counted("doublebuffer_queue_depth") != wanted:
            await asyncio.sleep(0.02)


async def open_jobs(bench: Bench) -> int:
    """Entries in the lanes' streams."""
    client = redis.asyncio.Redis(port=bench.site.redis.port)
    try:
        names = [name async for name in client.scan_iter(match="*jobs:*", _type="stream")]
        return sum([int(await client.xlen(name)) for name in names])
    finally:
        await client.aclose()


async def starts(bench: Bench, busy: Busy, line: Line, count: int) -> None:
    """A ends, and C is the next that the engine hears of."""
    busy.over.set()
    request = await bench.oai.received(count)
    assert b"JOB-C" in request.body
    assert request.at - busy.ended_at < ENDS_S
    await line.heard(b"[DONE]")
    assert not any(b"JOB-B" in one.body for one in bench.oai.requests)


@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize("stream", [True, False])
async def test_one_that_left_is_never_started(bench: Bench, path: str, stream: bool) -> None:
    busy = Busy(bench)
    chat = "/v1/chat/completions"
    first = await Line.post(bench.url, chat, body(chat, OAI, "JOB-A", stream=True))
    await bench.oai.received()
    second = await Line.post(bench.url, path, body(path, OAI, "JOB-B", stream=stream))
    await depth(bench, 1, within_s=2)
    third = await Line.post(bench.url, chat, body(chat, OAI, "JOB-C", stream=True))
    await depth(bench, 2, within_s=2)
    second.close()
    await depth(bench, 1, within_s=2)
    assert await open_jobs(bench) == 2
    await starts(bench, busy, third, 2)
    await first.heard(b"[DONE]")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
async def test_one_that_has_headers_and_signs_of_life_already(bench: Bench, path: str) -> None:
    """After five seconds the answer's head is there; who leaves then is noticed as well."""
    busy = Busy(bench)
    chat = "/v1/chat/completions"
    first = await Line.post(bench.url, chat, body(chat, OAI, "JOB-A", stream=True))
    await bench.oai.received()
    second = await Line.post(bench.url, path, body(path, OAI, "JOB-B", stream=True))
    third = await Line.post(bench.url, chat, body(chat, OAI, "JOB-C", stream=True))
    await second.heard(b"\r\n\r\n", within_s=8)
    await second.heard(b"\n", within_s=2)
    second.close()
    await depth(bench, 1, within_s=2)
    await starts(bench, busy, third, 2)
    await first.heard(b"[DONE]")
