"""Clients that give up on an answer in one piece: the engine stops, and works for the next one at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.cases.leaving import WAYS, Line, body
from tests.cases.rig import OAI, OLL, Bench, run_bench, settings
from tests.cases.scripts import oai, oll
from tests.rig.connection import Recorded
from tests.rig.script import HOLD, Piece

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

LEASE_S = 1.5
SOON_S = 3.0
AGAIN_S = 4 * LEASE_S
"""So long nothing of it may come once more: longer than a lease, and than all retries."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    more = settings(retries=2, max_in_flight="1", lease_seconds=str(LEASE_S))
    async with run_bench(more=more) as found:
        yield found


@pytest.fixture(autouse=True)
def silent(bench: Bench, checked: None) -> None:
    """JOB-A is never answered."""

    def script(request: Recorded) -> list[Piece]:
        if b"JOB-A" in request.body:
            return [HOLD]
        return (oll if request.path.startswith("/api/") else oai)(request, "o", "k")

    bench.oai.script = bench.oll.script = script


LEAVING: dict[str, Callable[[Line], None]] = {
    "closes": Line.close,
    "resets": Line.reset,
    "half-closes": Line.half_close,
}
CASES = [
    *((path, OAI, "closes") for path in WAYS),
    *((path, OLL, "closes") for path in ("/v1/chat/completions", "/api/chat")),
    *((path, OAI, how) for path in ("/v1/chat/completions", "/api/chat") for how in ("resets", "half-closes")),
]


async def counts(bench: Bench) -> tuple[float, float]:
    """Cancelled, failed."""
    name = "doublebuffer_requests_total"
    return await bench.counted(name, outcome="cancelled"), await bench.counted(name, outcome="backend_error")


@pytest.mark.parametrize(("path", "model", "how"), CASES)
async def test_the_engine_stops_and_serves_the_next(bench: Bench, path: str, model: str, how: str) -> None:
    engine = bench.engine(model)
    cancelled, failed = await counts(bench)
    line = await Line.post(bench.url, path, body(path, model, "JOB-A", stream=False))
    request = await engine.received()
    await asyncio.sleep(0.2)
    assert not request.closed.is_set()
    left_at = time.monotonic()
    LEAVING[how](line)
    async with asyncio.timeout(SOON_S):
        await request.closed.wait()
    assert request.peer_closed_at is not None
    assert request.peer_closed_at - left_at < SOON_S
    next_one = await bench.ask(path, body(path, model, "JOB-B", stream=False))
    assert next_one.status == 200
    assert next_one.took_s < SOON_S
    assert sum(b"JOB-A" in one.body for one in engine.requests) == 1
    async with asyncio.timeout(SOON_S):
        while (await counts(bench))[0] == cancelled:
            await asyncio.sleep(0.02)
    assert await counts(bench) == (cancelled + 1, failed)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/api/embed"])
async def test_vectors_are_given_up_alike(bench: Bench, path: str) -> None:
    embeddings = bench.oai.embeddings
    embeddings.gate = asyncio.Event()
    cancelled, failed = await counts(bench)
    line = await Line.post(bench.url, path, {"model": OAI, "input": "JOB-A"})
    request = await embeddings.received(len(embeddings.requests) + 1)
    line.close()
    async with asyncio.timeout(SOON_S):
        await request.closed.wait()
    embeddings.gate = None
    reply = await bench.ask(path, {"model": OAI, "input": "JOB-B"})
    assert reply.status == 200
    assert reply.took_s < SOON_S
    assert await counts(bench) == (cancelled + 1, failed)


@pytest.mark.slow
async def test_none_of_them_comes_once_more(bench: Bench) -> None:
    """Neither a retry nor a take-over brings it back."""
    for number, path in enumerate(WAYS, 1):
        line = await Line.post(bench.url, path, body(path, OAI, "JOB-A", stream=False))
        await bench.oai.received(number)
        line.close()
    await asyncio.sleep(AGAIN_S)
    assert len(bench.oai.requests) == len(WAYS)
    assert all(request.closed.is_set() for request in bench.oai.requests)
    assert (await bench.chat("openai", OAI, "JOB-B")).status == 200
