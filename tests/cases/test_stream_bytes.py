"""Streams that the network cuts anywhere: between any two bytes, in letters of several bytes, in tool arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases.reply import Reply
from tests.cases.rig import BOTH, OAI, OLL, Bench
from tests.rig.script import DONE, Flavour, Piece, done, encode, finish, line, role, tool

pytestmark = pytest.mark.asyncio(loop_scope="module")

APIS = ("ollama", "openai")
TEXTS = {
    "letters, a globe and an accent": "温度 🌍 é",
    "letters that are joined": "👩‍👩‍👧‍👦 🏳️‍🌈 नमस्ते",
    "right to left, and combining": "שלום مرحبا e\u0301 Å",
    "what some take for ends of lines": "one\u2028two\u2029three\u0085four",
    "quotes, backslashes and ends of lines": 'say "é"\\n\r\n\tü\n\n{"a": "温"}',
    "words of the form itself": "data: [DONE] 温\n\ndata: {}\n\nevent: é",
    "the replacement's neighbours": "\ufffc\uffee\U0010fffd",
}


def stream(flavour: Flavour, text: str) -> bytes:
    events: list[Piece] = [role(), text, finish(), DONE] if flavour == "openai" else [text, done()]
    return b"".join(encode(flavour, event) for event in events)  # type: ignore[arg-type]


def single(data: bytes) -> Iterator[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


def within_letters(data: bytes) -> Iterator[bytes]:
    """Cut only where a letter is not at its end."""
    begun = 0
    for i in range(1, len(data)):
        if data[i] & 0xC0 == 0x80:
            yield data[begun:i]
            begun = i
    yield data[begun:]


def threes(data: bytes) -> Iterator[bytes]:
    return (data[i : i + 3] for i in range(0, len(data), 3))


def carriage_returns(data: bytes) -> Iterator[bytes]:
    """Lines that end with CR LF, cut between the two."""
    rows = data.split(b"\n")
    for row in rows[:-1]:
        yield row + b"\r"
        yield b"\n"


CUTS = {f.__name__: f for f in (single, within_letters, threes, carriage_returns)}


async def ask(bench: Bench, api: str, model: str, cut: str, data: bytes, **fields: Any) -> Reply:
    bench.engine(model).once.append(list(CUTS[cut](data)))
    reply = await bench.chat(api, model, stream=True, **fields)
    assert "\ufffd" not in reply.body.decode()
    return reply


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("api", APIS)
async def test_text_is_the_same_wherever_it_was_cut(bench: Bench, api: str, model: str, cut: str) -> None:
    for text in TEXTS.values():
        reply = await ask(bench, api, model, cut, stream(bench.engine(model).flavour, text))
        assert reply.content == text
        ends = [told for told in reply.lines() if told["done"]] if api == "ollama" else reply.finishes()
        assert len(ends) == 1


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("api", APIS)
async def test_thinking_and_arguments_too(bench: Bench, api: str, cut: str) -> None:
    text = TEXTS["letters, a globe and an accent"]
    half = len(json.dumps({"city": text}, ensure_ascii=False)) // 2
    arguments = json.dumps({"city": text}, ensure_ascii=False)
    calls = [tool(0, call_id="c0", name="w"), tool(0, arguments[:half]), tool(0, arguments[half:])]
    scripts: dict[str, list[Any]] = {
        OAI: [f"<think>{text}</think>", *calls, finish("tool_calls"), DONE],
        OLL: [
            line(thinking=text),
            line(tool_calls=[]) | {"message": {"role": "assistant", "content": "", "tool_calls": [call(text)]}},
            done(),
        ],
    }
    for model, events in scripts.items():
        data = b"".join(encode(bench.engine(model).flavour, event) for event in events)
        asked = {"think": True} if api == "ollama" else {}
        tools = [{"type": "function", "function": {"name": "w", "parameters": {"type": "object"}}}]
        reply = await ask(bench, api, model, cut, data, tools=tools, **asked)
        assert reply.thinking == text
        if api == "ollama":
            (made,) = [one for told in reply.lines() for one in told["message"].get("tool_calls", [])]
            assert made["function"]["arguments"] == {"city": text}
        else:
            parts = [one["function"].get("arguments", "") for d in reply.deltas() for one in d.get("tool_calls", [])]
            assert json.loads("".join(parts)) == {"city": text}


def call(text: str) -> dict[str, Any]:
    return {"function": {"name": "w", "arguments": {"city": text}}}


@pytest.mark.parametrize("api", APIS)
async def test_bytes_that_are_no_text_end_nothing_else(bench: Bench, api: str) -> None:
    """A broken engine's stray byte costs its own letter or its own answer, said plainly."""
    for model in BOTH:
        data = stream(bench.engine(model).flavour, "a☃b").replace("☃".encode(), b"\xff")
        bench.engine(model).once.append([data])
        reply = await bench.chat(api, model, stream=True)
        if reply.status == 200 and b'"error"' not in reply.body:
            assert reply.content in ("ab", "a\ufffdb")
        assert (await bench.chat(api, model, stream=True)).content
