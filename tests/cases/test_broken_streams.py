"""Engines that break off in the middle of an answer: the client is told so, in the words of its API, and nobody takes
what there is for the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.reply import Reply
from tests.cases.rig import OAI, OLL, Bench
from tests.cases.scripts import plain
from tests.rig.script import CUT, DONE, FIN, RST, Piece, done, finish, line, reasoning, role

pytestmark = pytest.mark.asyncio(loop_scope="module")

FRONTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "temperature": 0},
    "/api/chat": {"messages": [{"role": "user", "content": "x"}]},
    "/v1/responses": {"input": "x"},
    "/v1/messages": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 50},
}
BREAKS: dict[str, tuple[str, list[Piece]]] = {
    "a reset": (OAI, [role(), "one", "two", RST]),
    "a killed engine": (OAI, [role(), "one", "two", CUT]),
    "an end without an end": (OAI, [role(), "one", "two", FIN]),
    "a closing word without an end": (OAI, [role(), "one", "two", DONE]),
    "an error in the stream": (OAI, [role(), "one", "two", {"error": {"message": "gpu lost", "code": 500}}, DONE]),
    "an engine that is shut down": (OAI, [role(), "one", "two", finish("abort"), DONE]),
    "a reset of Ollama": (OLL, ["one", "two", RST]),
    "an error of Ollama": (OLL, ["one", "two", {"error": "llama runner process has terminated"}]),
    "a runner that is gone": (OLL, ["one", "two", {"message": {"role": "assistant", "content": ""}, "done": True}]),
}


def is_told(path: str, reply: Reply) -> None:
    """One error in the form of the path's API, after the words, and no end that looks proper."""
    assert reply.status == 200
    if path == "/api/chat":
        *lines, last = reply.lines()
        assert set(last) == {"error"}
        assert isinstance(last["error"], str)
        assert last["error"]
        assert not any(told.get("done") or "error" in told for told in lines)
        return
    assert reply.whole, "the message ends as HTTP wants it"
    frames = [json.loads(frame) for frame in reply.frames() if frame != "[DONE]"]
    if path == "/v1/chat/completions":
        *chunks, last = frames
        assert isinstance(last["error"]["message"], str)
        assert last["error"]["message"]
        assert not any("error" in chunk for chunk in chunks)
        assert reply.finishes() == []
    elif path == "/v1/messages":
        assert frames[-1]["type"] == "error"
        assert frames[-1]["error"]["message"]
        assert not any(frame["type"] == "message_stop" for frame in frames)
    else:
        assert frames[-1]["type"] == "response.failed"
        assert frames[-1]["response"]["error"]["message"]
        assert not any(frame["type"] == "response.completed" for frame in frames)


def words(path: str, reply: Reply) -> str:
    if path in ("/api/chat", "/v1/chat/completions"):
        return reply.content
    frames = [json.loads(frame) for frame in reply.frames()]
    if path == "/v1/messages":
        return "".join(f["delta"].get("text", "") for f in frames if f["type"] == "content_block_delta")
    return "".join(f["delta"] for f in frames if f["type"] == "response.output_text.delta")


async def outcomes(bench: Bench) -> list[float]:
    return [await bench.counted("doublebuffer_requests_total", outcome=o) for o in ("ok", "backend_error")]


@pytest.mark.parametrize(
    ("path", "trouble"),
    [(path, trouble) for path in ("/v1/chat/completions", "/api/chat") for trouble in BREAKS]
    + [(path, trouble) for path in ("/v1/responses", "/v1/messages") for trouble in ("a reset", "an error of Ollama")],
)
async def test_it_is_told(bench: Bench, trouble: str, path: str) -> None:
    model, script = BREAKS[trouble]
    engine = bench.engine(model)
    engine.once.append(script)
    before = await outcomes(bench)
    body = {"model": model, "stream": True, **FRONTS[path]}
    reply = await bench.ask(path, body, may_break=path == "/api/chat")
    assert words(path, reply) == "onetwo"
    assert reply.took_s < 2
    is_told(path, reply)
    assert await outcomes(bench) == [before[0], before[1] + 1]
    assert len(engine.requests) == 1

    engine.script = plain
    again = await bench.ask(path, body)
    assert words(path, again) == "ok"
    assert len(engine.requests) == 2, "what broke off was kept for nobody"
    assert await outcomes(bench) == [before[0] + 1, before[1] + 1]


@pytest.mark.parametrize("path", FRONTS)
@pytest.mark.parametrize(
    ("model", "script"), [(OAI, [role(), reasoning("hm "), reasoning("so"), RST]), (OLL, [line(thinking="hm so"), RST])]
)
async def test_a_break_after_thinking_alone(bench: Bench, model: str, script: list[Piece], path: str) -> None:
    """The answer has begun, though no word of it has come; where the thinking is shown, it is not begun anew."""
    bench.engine(model).once.append(script)
    more: dict[str, Any] = {"think": True} if path == "/api/chat" else {}
    body = {"model": model, "stream": True, **FRONTS[path], **more}
    reply = await bench.ask(path, body, may_break=path == "/api/chat")
    assert len(bench.engine(model).requests) == 1
    assert words(path, reply) == ""
    is_told(path, reply)


@pytest.mark.parametrize("path", FRONTS)
async def test_in_one_piece_it_is_a_status(bench: Bench, path: str) -> None:
    bench.oai.once.append([role(), "one", "two", RST])
    reply = await bench.ask(path, {"model": OAI, **FRONTS[path], "stream": False})
    assert reply.status == 502
    told = reply.json()["error"]
    assert told if path == "/api/chat" else told["message"]
    assert b"one" not in reply.body.replace(b"gone", b"")


async def test_a_line_that_is_cut_is_no_line(bench: Bench) -> None:
    """The half of a line that a break leaves is not passed on as the answer's end."""
    whole = json.dumps(done()).encode()
    bench.oll.once.append(["one", whole[: len(whole) // 2], FIN])
    reply = await bench.chat("ollama", OLL, may_break=True)
    assert reply.content == "one"
    is_told("/api/chat", reply)
