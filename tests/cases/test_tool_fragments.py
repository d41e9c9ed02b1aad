"""Tool calls that engines send in fragments: whole for every client, in one object or in a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.reply import Reply
from tests.cases.rig import OAI, Bench
from tests.cases.scripts import streams
from tests.rig.connection import Recorded
from tests.rig.script import DONE, Piece, Status, chunk, finish, role, tool, usage

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAYS = [("ollama", False), ("ollama", True), ("openai", False), ("openai", True)]
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "", "parameters": {"type": "object"}}}
    for name in ("w", "now")
]
CITY: dict[str, Any] = {"city": "Tokyo"}


def several(*calls: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(calls)})


def started(index: int, call_id: str, name: str, arguments: str = "") -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


END: list[Piece] = [finish("tool_calls"), DONE]
SCRIPTS: dict[str, list[Piece]] = {
    "arguments in three, an index left out": [
        *(role(), tool(0, call_id="c0", name="w"), tool(0, '{"ci'), tool(0, 'ty":"Tok'), tool(0, 'yo"}')),
        *(tool(2, call_id="c2", name="now"), tool(2, "{}"), *END),
    ],
    "letter by letter": [
        *(tool(0, call_id="c0", name="w"), *(tool(0, letter) for letter in '{"city":"Tokyo"}')),
        *(tool(1, call_id="c2", name="now"), tool(1, "{"), tool(1, "}"), *END),
    ],
    "side by side": [
        several(started(0, "c0", "w"), started(1, "c2", "now")),
        *(tool(0, '{"city":'), tool(1, "{"), tool(0, '"Tokyo"}'), tool(1, "}"), *END),
    ],
    "whole": [several(started(0, "c0", "w", '{"city":"Tokyo"}'), started(1, "c2", "now", "{}")), *END],
    "the beginning of the arguments with the name": [
        *(several(started(0, "c0", "w", '{"city"')), tool(0, ':"Tokyo"}')),
        *(several(started(1, "c2", "now", "{")), tool(1, "}"), *END),
    ],
    "no arguments at all for the second": [
        *(tool(0, call_id="c0", name="w"), tool(0, '{"city":"Tokyo"}'), tool(1, call_id="c2", name="now"), *END),
    ],
    "the id in each fragment": [
        *(tool(0, call_id="c0", name="w"), tool(0, '{"city":', call_id="c0"), tool(0, '"Tokyo"}', call_id="c0")),
        *(tool(1, call_id="c2", name="now"), tool(1, "{}", call_id="c2"), *END),
    ],
    "nulls in the fragments": [
        tool(0, call_id="c0", name="w"),
        several({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": '{"city":"Tokyo"}'}}),
        several({"index": 1, "id": "c2", "type": "function", "function": {"name": "now", "arguments": None}}),
        *END,
    ],
    "a usual end in place of that of calls": [
        *(
            tool(0, call_id="c0", name="w"),
            tool(0, '{"city":"Tokyo"}'),
            tool(1, call_id="c2", name="now"),
            tool(1, "{}"),
        ),
        *(finish("stop"), DONE),
    ],
    "the end in the last fragment's chunk": [
        *(tool(0, call_id="c0", name="w"), tool(0, '{"city":"Tokyo"}'), tool(1, call_id="c2", name="now")),
        *(chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}, "tool_calls"), DONE),
    ],
}


def honours(pieces: list[Piece]) -> Any:
    """The pieces, or for who asks for one object what they come to."""

    def script(request: Recorded) -> list[Piece]:
        if streams(request):
            return pieces
        calls = [started(0, "c0", "w", '{"city":"Tokyo"}'), started(1, "c2", "now", "{}")]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return [Status(200, usage(7, 9) | {"object": "chat.completion", "choices": [choice]})]

    return script


def ollama_calls(reply: Reply, stream: bool) -> list[tuple[str, Any]]:
    lines = reply.lines() if stream else [reply.json()]
    assert lines[-1]["done_reason"] == "stop"
    calls = [call["function"] for line in lines for call in line["message"].get("tool_calls") or []]
    return [(call["name"], call["arguments"]) for call in calls]


def openai_calls(reply: Reply, stream: bool) -> list[tuple[str, str, Any]]:
    if not stream:
        (choice,) = reply.json()["choices"]
        assert choice["finish_reason"] == "tool_calls"
        assert not choice["message"]["content"]
        calls = choice["message"]["tool_calls"]
        assert all(call["type"] == "function" for call in calls)
        return [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]
    assert reply.finishes() == ["tool_calls"]
    found: dict[int, list[str]] = {}
    for delta in reply.deltas():
        for part in delta.get("tool_calls") or []:
            call = found.setdefault(part["index"], ["", "", ""])
            function = part.get("function") or {}
            for at, text in enumerate((part.get("id"), function.get("name"), function.get("arguments"))):
                call[at] += text or ""
    assert sorted(found) == list(range(len(found)))
    return [(call_id, name, json.loads(arguments)) for call_id, name, arguments in found.values()]


@pytest.mark.parametrize(("api", "stream"), WAYS)
@pytest.mark.parametrize("script", SCRIPTS)
async def test_calls_are_whole(bench: Bench, script: str, api: str, stream: bool) -> None:
    bench.oai.script = honours(SCRIPTS[script])
    reply = await bench.chat(api, OAI, "weather?", stream=stream, tools=TOOLS)
    assert reply.status == 200, reply.body
    if api == "ollama":
        assert ollama_calls(reply, stream) == [("w", CITY), ("now", {})]
    else:
        assert openai_calls(reply, stream) == [("c0", "w", CITY), ("c2", "now", {})]


@pytest.mark.parametrize(("api", "stream"), WAYS)
async def test_an_engine_that_gives_no_ids(bench: Bench, api: str, stream: bool) -> None:
    """Clients need one to answer a call, and two calls must not share it."""
    bench.oai.script = honours(
        [tool(0, name="w"), tool(0, '{"city":"Tokyo"}'), tool(1, name="now"), tool(1, "{}"), *END]
    )
    reply = await bench.chat(api, OAI, stream=stream, tools=TOOLS)
    if api == "ollama":
        assert ollama_calls(reply, stream) == [("w", CITY), ("now", {})]
    else:
        told = openai_calls(reply, stream)
        assert [call[1:] for call in told] == [("w", CITY), ("now", {})]
        assert len({call[0] for call in told} - {""}) == 2


@pytest.mark.parametrize(("api", "stream"), WAYS)
async def test_words_before_the_calls_stay(bench: Bench, api: str, stream: bool) -> None:
    pieces = [
        role(),
        "Let me ",
        "look.",
        tool(0, call_id="c0", name="w"),
        tool(0, '{"city":'),
        tool(0, '"Tokyo"}'),
        *END,
    ]
    bench.oai.script = pieces
    reply = await bench.chat(api, OAI, stream=stream, tools=TOOLS)
    assert reply.content == "Let me look."
    if api == "ollama":
        assert ollama_calls(reply, stream) == [("w", CITY)]


@pytest.mark.parametrize(("api", "stream"), WAYS)
async def test_arguments_that_are_cut_off(bench: Bench, api: str, stream: bool) -> None:
    """By the length: no half object for clients of Ollama, and no internal error for anybody."""
    bench.oai.script = [tool(0, call_id="c0", name="w"), tool(0, '{"city":"To'), finish("length"), DONE]
    reply = await bench.chat(api, OAI, stream=stream, tools=TOOLS)
    assert reply.status in (200, 502), reply.body
    if api == "ollama" and reply.status == 200:
        lines = reply.lines() if stream else [reply.json()]
        calls = [call["function"] for line in lines for call in (line.get("message") or {}).get("tool_calls") or []]
        assert all(isinstance(call["arguments"], dict) for call in calls)
