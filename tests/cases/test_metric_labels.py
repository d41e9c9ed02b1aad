"""Labels of metrics take no value that a client, or an engine, can choose: series do not grow with them."""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cases.rig import OAI, OLL, Bench
from tests.rig.script import FIN, Piece, Status, chunk

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

MOST_NEW = 50
SCRAPE_S = 0.2
AT_ONCE = 20


class Random:
    """Words that nobody has said before, and that are known again."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def word(self) -> str:
        self.said.append(f"rnd{secrets.token_hex(8)}")
        return self.said[-1]


async def _scrape(bench: Bench) -> tuple[str, float]:
    began_at = time.perf_counter()
    answer = await bench.get("/metrics")
    assert answer.status == 200
    return answer.body.decode(), time.perf_counter() - began_at


def _series(text: str) -> set[str]:
    return {line.rpartition(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}


def _chats(text: str) -> float:
    """The request counter of OpenAI's chat route, over all results."""
    rows = (line.rpartition(" ") for line in text.splitlines())
    return sum(float(v) for k, _, v in rows if k.startswith('doublebuffer_requests_total{api="openai"'))


async def _all(asking: Iterable[Awaitable[Any]]) -> list[Any]:
    """A few at a time."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(ask: Awaitable[Any]) -> Any:
        async with free:
            return await ask

    return await asyncio.gather(*map(one, asking))


def _headers(some: Random) -> dict[str, str | None]:
    return {"user-agent": some.word(), "authorization": f"Bearer {some.word()}"}


def _families(text: str) -> None:
    """Each has its HELP and its TYPE."""
    told = {kind: set(re.findall(rf"^# {kind} (\S+)", text, re.MULTILINE)) for kind in ("HELP", "TYPE")}
    assert told["HELP"] == told["TYPE"]
    for series in _series(text):
        name = series.partition("{")[0]
        assert {name, re.sub(r"_(bucket|sum|count)$", "", name)} & told["TYPE"], name


async def _warm_up(bench: Bench) -> None:
    for _ in range(10):
        assert (await bench.chat("openai", OAI)).status == 200


@asynccontextmanager
async def _unmoved(bench: Bench, some: Random) -> AsyncIterator[list[str]]:
    """Before and after, scraped; and what has to hold of the two."""
    await _warm_up(bench)
    before, _ = await _scrape(bench)
    scrapes = [before]
    yield scrapes
    after, _ = await _scrape(bench)
    scrapes.append(after)
    new = _series(after) - _series(before)
    assert len(new) <= MOST_NEW, sorted(new)
    assert [word for word in some.said if word in after] == []
    _families(after)
    # The best of three: the cores have much else to do.
    assert min([(await _scrape(bench))[1] for _ in range(3)]) < SCRAPE_S


async def test_h33_labels_take_nothing_from_callers(bench: Bench) -> None:
    some = Random()
    async with _unmoved(bench, some) as scrapes:
        models = [OAI] * 100 + [some.word() for _ in range(200)]
        random.Random(33).shuffle(models)
        chats = await _all(bench.chat("openai", model, user=some.word(), headers=_headers(some)) for model in models)
        assert sorted(answer.status for answer in chats) == [200] * 100 + [404] * 200
        lost = await _all(bench.ask(f"/v1/{some.word()}", {}, headers=_headers(some)) for _ in range(50))
        assert {answer.status for answer in lost} == {404}
    assert _chats(scrapes[1]) - _chats(scrapes[0]) == 300


async def test_nor_on_any_other_way_in(bench: Bench) -> None:
    """Every dialect, every header that tells of a person, a task, a lane or a trace; wrong methods, wrong paths."""
    some = Random()

    def telling() -> dict[str, str | None]:
        names = ("x-openwebui-user-id", "x-openwebui-task", "x-doublebuffer-lane", "x-request-id", "idempotency-key")
        trace = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        some.said.append(trace.split("-")[1])
        return _headers(some) | {name: some.word() for name in names} | {"traceparent": trace}

    asked = [{"role": "user", "content": some.word()}]
    bodies: dict[str, dict[str, Any]] = {
        "/api/chat": {"messages": asked, "stream": False},
        "/api/generate": {"prompt": some.word(), "stream": False},
        "/v1/completions": {"prompt": some.word()},
        "/v1/responses": {"input": some.word()},
        "/v1/messages": {"messages": asked, "max_tokens": 5},
        "/v1/embeddings": {"input": some.word()},
        "/api/embed": {"input": some.word()},
    }
    async with _unmoved(bench, some):
        for path, body in bodies.items():
            known = OLL if path.startswith("/api") else OAI
            models = [known, known, *(some.word() for _ in range(8))]
            await _all(bench.ask(path, body | {"model": model}, headers=telling()) for model in models)
        await _all(bench.ask(f"/api/{some.word()}", {}, headers=telling()) for _ in range(10))
        methods = [some.word().upper() for _ in range(10)]
        await _all(bench.ask("/v1/chat/completions", {}, method=method, headers=telling()) for method in methods)
        some.said += methods


async def test_nor_from_engines(bench: Bench) -> None:
    """What one says of itself, of its models' names, of why it stopped and of what went wrong."""
    some = Random()
    async with _unmoved(bench, some):
        for number in range(60):
            named = {"system_fingerprint": some.word(), "id": some.word(), "model": some.word()}
            error = {"error": {"message": some.word(), "type": some.word(), "code": some.word()}}
            said: list[Piece] = [chunk({"content": some.word()}) | named, chunk({}, some.word()) | named, FIN]
            bench.oai.once.append([Status(400 + number % 100, error)] if number % 2 else said)
            await bench.chat("openai", OAI)
