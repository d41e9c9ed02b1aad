"""Answers that are complete but end otherwise than most, and chunks that hold no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.rig import BOTH, OAI, OLL, Bench
from tests.rig.connection import Recorded
from tests.rig.script import CUT, DONE, FIN, RST, Piece, chunk, done, encode, finish, role, usage

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAYS = [("openai", True), ("ollama", ...), ("openai", False), ("ollama", False)]


def last_line(reason: str = "stop") -> bytes:
    return encode("ollama", done(reason))


WHOLE: dict[str, tuple[str, list[Piece]]] = {
    "no closing word": (OAI, [role(), "Hi", finish(), FIN]),
    "no closing word, but counts": (OAI, [role(), "Hi", finish(), usage(7, 1), FIN]),
    "counts in the last chunk": (OAI, [role(), "Hi", finish() | {"usage": usage(7, 1)["usage"]}, FIN]),
    "the end in the last word's chunk": (OAI, [role(), chunk({"content": "Hi"}, "stop"), FIN]),
    "a body that never ends": (OAI, [role(), "Hi", finish(), CUT]),
    "a reset after the end": (OAI, [role(), "Hi", finish(), RST]),
    "a closing word without its blank line": (OAI, [role(), "Hi", finish(), b"data: [DONE]", FIN]),
    "a last chunk without its blank line": (OAI, [role(), "Hi", encode("openai", finish()).rstrip(), FIN]),
    "an end that is said twice": (OAI, [role(), "Hi", finish(), finish(), DONE, DONE]),
    "a last line without its line feed": (OLL, ["Hi", last_line().rstrip(), FIN]),
    "a reset after the last line": (OLL, ["Hi", last_line(), RST]),
    "a last line and no end of the body": (OLL, ["Hi", last_line(), CUT]),
}


@pytest.mark.parametrize(("api", "stream"), WAYS)
@pytest.mark.parametrize("ending", WHOLE)
async def test_a_complete_answer_is_no_failure(bench: Bench, ending: str, api: str, stream: Any) -> None:
    model, pieces = WHOLE[ending]
    engine = bench.engine(model)
    engine.once.append(pieces)
    before = [await bench.counted("doublebuffer_requests_total", outcome=o) for o in ("ok", "backend_error")]
    reply = await bench.chat(api, model, stream=stream)
    assert reply.content == "Hi"
    if reply.type == "text/event-stream":
        assert reply.finishes() == ["stop"]
        assert reply.frames().count("[DONE]") == 1
        assert reply.frames()[-1] == "[DONE]"
        assert not any("error" in told for told in reply.chunks())
    else:
        last = reply.lines()[-1] if reply.type == "application/x-ndjson" else reply.json()
        if api == "ollama":
            assert (last["done"], last["done_reason"]) == (True, "stop")
        else:
            assert last["choices"][0]["finish_reason"] == "stop"
    after = [await bench.counted("doublebuffer_requests_total", outcome=o) for o in ("ok", "backend_error")]
    assert after == [before[0] + 1, before[1]]
    assert len(engine.requests) == 1


@pytest.mark.parametrize("ending", [FIN, CUT, RST])
@pytest.mark.parametrize("model", BOTH)
async def test_an_incomplete_one_is(bench: Bench, model: str, ending: Piece) -> None:
    """Without a finish reason nobody can tell that the answer is all there is."""
    bench.engine(model).once += [["Hi", ending] for _ in range(2)]
    assert (await bench.chat("openai", model, stream=False)).status in (500, 502)
    reply = await bench.chat("openai", model, stream=True)
    assert reply.status in (500, 502) or (reply.finishes() == [] and "error" in reply.chunks()[-1])


def no_choices(**fields: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-s", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}


COUNTS = usage(7, 1)["usage"]
ODD: dict[str, list[Piece]] = {
    "no choices first and in between": [no_choices(choices=[]), role(), "ok", no_choices(), finish()],
    "choices of null": [role(), no_choices(choices=None), "ok", finish()],
    "a delta of null": [
        role(),
        "ok",
        no_choices(choices=[{"index": 0, "delta": None, "finish_reason": None}]),
        finish(),
    ],
    "a choice without a delta": [role(), "ok", no_choices(choices=[{"index": 0, "finish_reason": "stop"}])],
    "content of null": [chunk({"role": "assistant", "content": None}), "ok", chunk({"content": None}, "stop")],
    "no role at all": ["ok", finish()],
    "counts of null in each chunk": [role() | {"usage": None}, chunk({"content": "ok"}, usage=None), finish()],
    "comments and other events": [b": ping\n\n", role(), b"event: ping\ndata: {}\n\n", "ok", b":\n\n", finish()],
    "running counts": [role(), chunk({"content": "ok"}, usage={**COUNTS, "completion_tokens": 0}), finish()],
    "a filter's findings first": [no_choices(choices=[], prompt_filter_results=[]), role(), "ok", finish()],
}


@pytest.mark.parametrize("odd", ODD)
async def test_chunks_without_words(bench: Bench, odd: str) -> None:
    """Counts reach who asked for them, and nobody else gets a chunk without choices."""

    def script(request: Recorded) -> list[Piece]:
        wanted = (request.json().get("stream_options") or {}).get("include_usage")
        counts = no_choices(choices=[], usage=COUNTS)
        return [*ODD[odd], *([counts] if wanted else []), DONE]

    bench.oai.script = script
    native = await bench.chat("ollama", OAI)
    assert native.content == "ok"
    last = native.lines()[-1]
    assert (last["prompt_eval_count"], last["eval_count"], last["done"]) == (7, 1, True)

    asked = await bench.chat("openai", OAI, stream=True, stream_options={"include_usage": True})
    assert asked.content == "ok"
    assert asked.finishes() == ["stop"]
    empty = [told for told in asked.chunks() if not told["choices"]]
    assert [{k: told["usage"][k] for k in COUNTS} for told in empty] == [COUNTS]
    assert asked.frames()[-1] == "[DONE]"
    assert json.loads(asked.frames()[-2]) == empty[0]

    for options in (..., {"include_usage": False}, None, {}):
        silent = await bench.chat("openai", OAI, stream=True, stream_options=options)
        assert silent.content == "ok"
        assert all(told["choices"] for told in silent.chunks()), options
