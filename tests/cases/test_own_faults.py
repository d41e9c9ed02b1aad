"""Requests that are wrong themselves: told once, tried once, and held against nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cases.rig import OAI, OLL, Bench, run_bench, settings
from tests.cases.scripts import plain
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Status, role

pytestmark = pytest.mark.asyncio(loop_scope="module")

STATUSES = {"BAD": 400, "LONG": 413, "NOPE": 404, "ODD": 422, "LATE": 400, "AUTH": 401, "DENY": 403}
SHOWN = STATUSES | {"AUTH": 502, "DENY": 502}
"""The key that failed is ours, not the client's."""
PATHS = ("/v1/chat/completions", "/api/chat", "/v1/messages", "/v1/responses")


def strict(request: Recorded) -> list[Piece]:
    for word, status in STATUSES.items():
        if word.encode() in request.body:
            told = {"message": f"wrong: {word.lower()}", "type": "invalid_request_error", "code": status}
            if word == "LATE":  # found out once the headers were sent
                return [role(), {"error": told}] if b"/v1" in request.path.encode() else [{"error": told}]
            return [Status(status, {"error": told})]
    return plain(request)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    more = settings(retries=3, breaker_failures="3", breaker_cooldown_seconds="1")
    async with run_bench(more=more) as found:
        yield found


@pytest.fixture(autouse=True)
def both(bench: Bench, checked: None) -> None:
    bench.oai.script = bench.oll.script = strict


async def ask(bench: Bench, path: str, model: str, text: str) -> int:
    said = {"input": text} if path == "/v1/responses" else {"messages": [{"role": "user", "content": text}]}
    body = {"model": model, "stream": False, **said} | ({"max_tokens": 9} if path == "/v1/messages" else {})
    return (await bench.ask(path, body)).status


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", [OAI, OLL])
async def test_no_other_pays_for_them(bench: Bench, model: str, path: str) -> None:
    engine = bench.engine(model)
    for word in STATUSES:
        for count in range(1, 6):
            assert await ask(bench, path, model, f"say {word} {count}") == SHOWN[word]
        assert len(engine.requests) == 5, f"{word}: once each"
        engine.requests.clear()
    for _ in range(2):
        assert await ask(bench, path, model, "say something good") == 200
    assert len(engine.requests) == 2
    assert await bench.counted("doublebuffer_breaker_open") == 0


@pytest.mark.parametrize("api", ["openai", "ollama"])
async def test_a_fault_in_a_stream_is_a_status_too(bench: Bench, api: str) -> None:
    """Before the first word the client can still be told by one."""
    for word in STATUSES:
        bench.oai.requests.clear()
        reply = await bench.chat(api, OAI, f"say {word}", stream=True)
        assert (reply.status, reply.type) == (SHOWN[word], "application/json")
        told = reply.json()["error"]
        told = told if api == "ollama" else told["message"]
        assert told == f"wrong: {word.lower()}" if SHOWN[word] < 500 else "key" in told
        assert len(bench.oai.requests) == 1


async def test_the_engine_s_own_faults_do_count(bench: Bench) -> None:
    """Of several requests; the tries of one count once."""
    bench.oai.script = [Status(500, {"error": {"message": "no"}})]
    replies = [await bench.chat("openai", OAI, f"hi {count}", stream=False) for count in range(2)]
    assert [reply.status for reply in replies] == [502, 502]
    assert len(bench.oai.requests) == 8
    bench.oai.script = strict
    bench.oai.requests.clear()
    reply = await bench.chat("openai", OAI, "hi", stream=False)
    assert reply.content == "ok"
