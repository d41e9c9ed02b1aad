"""A kept answer is told as if it were made now, in the form that is asked for; what is not a whole plain answer is not
kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.acceptance.site import backend
from tests.cases.reply import Reply
from tests.cases.rig import BOTH, OAI, OLL, Bench, run_bench
from tests.cases.scripts import oai, oll
from tests.cases.test_cached_questions import Numbers, with_cache
from tests.rig.connection import Recorded
from tests.rig.script import (
    CUT,
    DONE,
    HOLD,
    RST,
    Piece,
    Status,
    chunk,
    done,
    finish,
    line,
    reasoning,
    role,
    tool,
    usage,
)  # fmt: skip
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

COLD = {"temperature": 0}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(more=with_cache()) as found:
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def forgotten(bench: Bench, checked: None) -> None:
    assert (await bench.ask("/v1/cache", method="DELETE")).status == 200


def because(request: Recorded) -> list[Piece]:
    """Thinks unless it is told not to."""
    thinks = (request.json().get("chat_template_kwargs") or {}).get("enable_thinking", True)
    return [role(), *([reasoning("because")] if thinks else []), "42", finish(), usage(5, 9), DONE]


async def test_thinking_is_told_each_time_and_never_kept(bench: Bench) -> None:
    bench.oai.script = because
    for _ in range(2):
        reply = await bench.chat("ollama", OAI, "why", think=True, options=COLD)
        assert (reply.thinking, reply.content) == ("because", "42")
    for _ in range(2):
        reply = await bench.chat("openai", OAI, "why", stream=True, temperature=0)
        thoughts = "".join(delta.get("reasoning_content") or "" for delta in reply.deltas())
        assert (thoughts, reply.content) == ("because", "42")
    assert len(bench.oai.requests) == 4
    first, second = [await bench.chat("ollama", OAI, "why", think=False, options=COLD) for _ in range(2)]
    assert len(bench.oai.requests) == 5
    for reply in (first, second):
        assert (reply.thinking, reply.content) == ("", "42")
        assert figures(reply.lines()[-1]) == (True, "stop", 5, 9)
        assert len(reply.lines()) >= 2
    whole = await bench.chat("ollama", OAI, "why", think=False, options=COLD, stream=False)
    assert figures(whole.json()) == (True, "stop", 5, 9)
    assert whole.content == "42"
    assert whole.json()["created_at"] > second.lines()[-1]["created_at"]
    assert len(bench.oai.requests) == 5


def figures(last: dict[str, Any]) -> tuple[Any, ...]:
    return last["done"], last["done_reason"], last["prompt_eval_count"], last["eval_count"]


WORDS = [f"word{number} " for number in range(60)]


def wordy(request: Recorded) -> list[Piece]:
    return oll(request, *WORDS) if request.path.startswith("/api/") else oai(request, *WORDS)


@pytest.mark.parametrize("model", BOTH)
async def test_whoever_asks_for_one_object_gets_one_and_who_asks_for_a_stream_gets_pieces(
    bench: Bench, model: str
) -> None:
    """After gumieri/nenya #18: hits came as a stream, whatever was asked for, with an error frame behind; and
    vllm-project/semantic-router #937: as one chunk.
    """
    bench.oai.script = bench.oll.script = wordy
    engine = bench.engine(model)
    text = "".join(WORDS)
    fresh = await bench.chat("openai", model, "say much", stream=True, temperature=0)
    assert fresh.content == text
    await asyncio.sleep(1.01)  # instants of OpenAI's answers are whole seconds
    streamed = await bench.chat("openai", model, "say much", stream=True, temperature=0)
    told = await bench.chat(
        "openai", model, "say much", stream=True, temperature=0, stream_options={"include_usage": True}
    )
    for reply in (streamed, told):
        chunks = reply.chunks()
        assert reply.content == text
        assert reply.finishes() == ["stop"]
        assert reply.frames()[-1] == "[DONE]"
        assert sum(bool(delta.get("content")) for delta in reply.deltas()) > 3
        assert len({chunk["id"] for chunk in chunks}) == 1
        assert chunks[0]["created"] > fresh.chunks()[0]["created"]
        assert chunks[0]["id"] != fresh.chunks()[0]["id"]
        assert b'"error"' not in reply.body
    assert [chunk["usage"] for chunk in streamed.chunks() if chunk.get("usage")] == []
    (counts,) = [chunk["usage"] for chunk in told.chunks() if chunk.get("usage")]
    assert (counts["prompt_tokens"], counts["completion_tokens"]) == (7, len(WORDS))
    whole = await bench.chat("openai", model, "say much", temperature=0)
    assert whole.type == "application/json"
    assert whole.content == text
    assert whole.json()["usage"]["completion_tokens"] == len(WORDS)
    lines = await bench.chat("ollama", model, "say much", options=COLD)
    assert lines.content == text
    assert len(lines.lines()) > 3
    assert figures(lines.lines()[-1]) == (True, "stop", 7, len(WORDS))
    assert all(line["done"] is False for line in lines.lines()[:-1])
    assert len(engine.requests) == 1
    hits: list[Reply] = [streamed, told, whole, lines]
    assert {one.headers["x-doublebuffer-cache"] for one in hits} == {"hit"}
    assert len({one.headers["x-doublebuffer-id"] for one in hits}) == len(hits)


BROKEN: dict[str, dict[str, list[Piece]]] = {
    "cut off by its length": {
        OAI: [role(), "too lo", finish("length"), usage(7, 2), DONE],
        OLL: ["too lo", done("length")],
    },
    "an error": {
        OAI: [Status(500, {"error": {"message": "no luck"}})],
        OLL: [Status(500, {"error": "no luck"})],
    },
    "a refusal": {
        OAI: [Status(400, {"error": {"message": "bad words"}})],
        OLL: [Status(400, {"error": "bad words"})],
    },
    "broken in the middle": {OAI: [role(), "half ", CUT], OLL: [line("half "), CUT]},
    "a tool called unasked": {
        OAI: [role(), tool(0, "{}", call_id="c1", name="look"), finish("tool_calls"), DONE],
        OLL: [line("", message={"content": "", "tool_calls": [{"function": {"name": "x", "arguments": {}}}]}), done()],
    },
    "no word": {OAI: [role(), chunk({"content": ""}), finish(), usage(7, 0), DONE], OLL: [done(completion=0)]},
}


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("trouble", BROKEN)
async def test_what_is_no_whole_answer_is_asked_for_again(bench: Bench, model: str, trouble: str) -> None:
    """After diegosouzapw/OmniRoute #12885: an answer that its length limit had cut off was given to all who asked
    later; and vllm-project/semantic-router #2130: errors were, as good answers.
    """
    engine = bench.engine(model)
    engine.once = [BROKEN[trouble][model]] * 2
    engine.script = Numbers()
    for stream in (True, False):
        first = await bench.chat("ollama", model, trouble, options=COLD, stream=stream, may_break=True)
        assert first.headers.get("x-doublebuffer-cache", "miss") == "miss"
    good = await bench.chat("ollama", model, trouble, options=COLD)
    assert good.content == "n1"
    assert good.headers["x-doublebuffer-cache"] == "miss"
    assert (await bench.chat("ollama", model, trouble, options=COLD)).headers["x-doublebuffer-cache"] == "hit"


async def test_who_leaves_in_the_middle_leaves_nothing_behind(bench: Bench) -> None:
    bench.oai.script = wordy
    bench.oai.once = [[role(), "half ", HOLD]]
    async with bench.client.stream(
        "POST",
        "/v1/chat/completions",
        json={"model": OAI, "stream": True, "temperature": 0, "messages": [{"role": "user", "content": "leave"}]},
    ) as response:
        async for piece in response.aiter_raw():
            if b"half" in piece:
                break
    (left,) = bench.oai.requests
    async with asyncio.timeout(5):
        while left.peer_closed_at is None:
            await asyncio.sleep(0.01)
    reply = await bench.chat("openai", OAI, "leave", temperature=0)
    assert reply.content == "".join(WORDS)


async def test_what_a_substitute_has_said_the_half_of_is_not_kept() -> None:
    more = with_cache(resume="on", max_attempts="5")
    async with Scripted("openai", kind="vllm", models=[OAI], script=[role(), "half ", RST]) as stand_in:
        others = [backend("sub", "vllm", stand_in.url, fallback_for=["fb1"])]
        async with run_bench(more=more, others=others, workers=1) as bench:
            for _ in range(2):
                bench.oai.once = [[Status(503, {"error": "busy"})]]
                bench.oai.script = [role(), "whole", finish(), usage(7, 2), DONE]
                reply = await bench.chat("openai", OAI, "who are you", stream=True, temperature=0)
                assert reply.content == "half whole"
                assert reply.headers["x-doublebuffer-cache"] == "miss"
