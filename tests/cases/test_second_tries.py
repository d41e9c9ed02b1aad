"""Tries after the first: invisible before the first word, never after it, and each counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.acceptance.site import backend
from tests.cases.reply import Reply
from tests.cases.rig import OAI, Bench, run_bench, settings
from tests.cases.scripts import oai
from tests.rig.redis_server import free_port
from tests.rig.script import CUT, FIN, HEAD, RST, Piece, Status, chunk, reasoning, role
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER = "Alpha beta gamma"
PORT = free_port()
"""Of the worker's figures."""
WAYS: list[tuple[str, dict[str, Any]]] = [("openai", {"stream": True}), ("ollama", {})]


class Second:
    """The back end that stands in; the module's bench has it, and so have its tests."""

    engine: Scripted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with Scripted("openai", kind="vllm", models=["its-own-name"]) as Second.engine:
        others = [
            backend("fb1b", "vllm", Second.engine.url, fallback_for=["fb1"], models={OAI: "its-own-name"}),
        ]
        more = settings(retries=2, metrics_port=str(PORT))
        async with run_bench(others=others, more=more, workers=1) as found:
            yield found


@pytest.fixture(autouse=True)
def second(bench: Bench) -> Scripted:
    Second.engine.requests.clear()
    Second.engine.once.clear()
    Second.engine.script = lambda request: oai(request, "Alpha ", "beta ", "gamma")
    return Second.engine


async def figures(bench: Bench) -> dict[str, float]:
    names = [("fb1", how) for how in ("refused", "failed", "broken", "ok")] + [("fb1b", "ok")]
    found = {
        f"{name} {how}": await bench.counted("doublebuffer_attempts_total", port=PORT, backend=name, result=how)
        for name, how in names
    }
    found["fallback"] = await bench.counted("doublebuffer_fallback_total", port=PORT, backend="fb1b")
    for outcome in ("ok", "backend_error"):
        found[outcome] = await bench.counted("doublebuffer_requests_total", outcome=outcome)
    return found


async def risen(bench: Bench, before: dict[str, float]) -> dict[str, float]:
    """By how much, of what has risen."""
    after = await figures(bench)
    return {name: after[name] - count for name, count in before.items() if after[name] != count}


def is_one_answer(reply: Reply) -> None:
    """As if nothing had happened."""
    assert reply.content == ANSWER
    if reply.type == "application/x-ndjson":
        assert [line["done"] for line in reply.lines()].count(True) == 1
        assert not any("error" in line for line in reply.lines())
        return
    if reply.type == "text/event-stream":
        assert len([delta for delta in reply.deltas() if "role" in delta]) == 1
        assert len({told["id"] for told in reply.chunks()}) == 1
        assert reply.finishes() == ["stop"]
        assert not any("error" in told for told in reply.chunks())
        assert reply.frames().count("[DONE]") == 1


@pytest.mark.parametrize(("api", "how"), WAYS)
@pytest.mark.parametrize("last", [RST, CUT, FIN])
async def test_after_a_word_nobody_begins_anew(
    bench: Bench, second: Scripted, last: Piece, api: str, how: dict[str, Any]
) -> None:
    bench.oai.script = [role(), "Alpha ", "beta ", last]
    before = await figures(bench)
    reply = await bench.chat(api, OAI, may_break=api == "ollama", **how)
    assert reply.content == "Alpha beta "
    last_told = reply.lines()[-1] if api == "ollama" else reply.chunks()[-1]
    assert last_told["error"]
    assert (len(bench.oai.requests), len(second.requests)) == (1, 0)
    assert await risen(bench, before) == {"fb1 broken": 1, "backend_error": 1}


EARLY: dict[str, tuple[list[Piece], str]] = {
    "a reset before any byte": ([RST], "failed"),
    "a reset after the headers": ([HEAD, RST], "failed"),
    "busy": ([Status(503, {"error": {"message": "full"}})], "refused"),
    "busy, with a time to wait": ([Status(429, {"error": "slow down"}, headers={"Retry-After": "30"})], "refused"),
    "out of memory": ([Status(500, {"error": {"message": "CUDA out of memory"}})], "failed"),
    "a role and a reset": ([role(), RST], "failed"),
    "an empty word and a reset": ([role(), chunk({"content": ""}), RST], "failed"),
    "an error in the stream": ([role(), {"error": {"message": "boom", "code": 500}}], "failed"),
    "a proxy's page": ([Status(200, "<html>Bad Gateway</html>", "text/html")], "failed"),
    "an end of the body": ([HEAD, FIN], "failed"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("api", "how", "trouble"),
    [(*way, trouble) for way in WAYS for trouble in EARLY]
    + [(api, {"stream": False}, trouble) for api, _ in WAYS for trouble in ("busy", "a role and a reset")],
)
async def test_before_the_first_word_it_shows_nowhere(
    bench: Bench, second: Scripted, api: str, how: dict[str, Any], trouble: str
) -> None:
    script, result = EARLY[trouble]
    bench.oai.script = script
    before = await figures(bench)
    reply = await bench.chat(api, OAI, **how)
    is_one_answer(reply)
    assert (reply.headers["x-doublebuffer-backend"], reply.headers["x-doublebuffer-fallback"]) == ("fb1b", "fb1")
    assert len(second.requests) == 1
    assert second.requests[0].json()["model"] == "its-own-name"
    assert await risen(bench, before) == {f"fb1 {result}": 1, "fb1b ok": 1, "fallback": 1, "ok": 1}


async def test_the_next_one_is_the_first_s_again(bench: Bench, second: Scripted) -> None:
    bench.oai.once.append([Status(503, {"error": {"message": "full"}})])
    assert (await bench.chat("openai", OAI, stream=True)).content == ANSWER
    reply = await bench.chat("openai", OAI, stream=True)
    assert reply.headers["x-doublebuffer-backend"] == "fb1"
    assert "x-doublebuffer-fallback" not in reply.headers
    assert len(second.requests) == 1


@pytest.mark.parametrize(("api", "how"), [("openai", {"stream": True}), ("ollama", {"think": True})])
async def test_thinking_that_was_shown_is_said(bench: Bench, second: Scripted, api: str, how: dict[str, Any]) -> None:
    """After it, as after a word, nothing is begun anew."""
    bench.oai.script = [role(), reasoning("hm"), RST]
    reply = await bench.chat(api, OAI, may_break=api == "ollama", **how)
    assert (reply.thinking, reply.content) == ("hm", "")
    assert second.requests == []


async def test_in_one_piece_nothing_has_been_said(bench: Bench, second: Scripted) -> None:
    for api in ("openai", "ollama"):
        bench.oai.script = [role(), "Alpha ", "beta ", RST]
        second.requests.clear()
        is_one_answer(await bench.chat(api, OAI, stream=False))
        assert len(second.requests) == 1


async def test_when_all_fail_it_ends(bench: Bench, second: Scripted) -> None:
    bench.oai.script = second.script = [Status(500, {"error": {"message": "no"}})]
    for api, how in WAYS:
        bench.oai.requests.clear()
        second.requests.clear()
        reply = await bench.chat(api, OAI, **how)
        assert reply.status == 502
        assert reply.json()["error"]
        assert len(bench.oai.requests) + len(second.requests) == 3
