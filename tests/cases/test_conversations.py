"""Conversations with tool calls in them, as client libraries send them back, to engines that take them one way only."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.reply import refused
from tests.cases.rig import BOTH, OAI, OLL, Bench
from tests.cases.scripts import oai, oll
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Status

pytestmark = pytest.mark.asyncio(loop_scope="module")


def ollama_complaint(message: dict[str, Any]) -> str:
    if "content" in message and not isinstance(message["content"], str):
        return "json: cannot unmarshal into field Message.content of type string"
    for call in message.get("tool_calls") or []:
        if not isinstance(call["function"]["arguments"], dict):
            return "json: cannot unmarshal string into field ToolCallFunction.arguments"
    return ""


def openai_complaint(message: dict[str, Any]) -> str:
    for call in message.get("tool_calls") or []:
        if not isinstance(call["function"]["arguments"], str) or not call["id"] or call["type"] != "function":
            return "tool_calls: arguments must be a string"
    if message["role"] == "tool" and not message.get("tool_call_id"):
        return "tool_call_id is missing"
    return ""


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def strict(bench: Bench, checked: None) -> None:
    def of_ollama(request: Recorded) -> list[Piece]:
        found = [complaint for m in request.json()["messages"] if (complaint := ollama_complaint(m))]
        return [Status(400, {"error": found[0]})] if found else oll(request, "o", "k")

    def of_openai(request: Recorded) -> list[Piece]:
        found = [complaint for m in request.json()["messages"] if (complaint := openai_complaint(m))]
        return [Status(400, {"error": {"message": found[0], "type": "x"}})] if found else oai(request, "o", "k")

    bench.oll.script, bench.oai.script = of_ollama, of_openai


ARGUMENTS = '{"city":"Oslo"}'


def conversation(
    *, assistant: dict[str, Any], tool: dict[str, Any], arguments: Any = ARGUMENTS
) -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": arguments}}
    return [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "tool_calls": [call], **assistant},
        {"role": "tool", "tool_call_id": "c1", **tool},
    ]


RAIN = {"content": "rain"}
TURNS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "null": (conversation(assistant={"content": None}, tool=RAIN), "rain"),
    "no key": (conversation(assistant={}, tool=RAIN), "rain"),
    "empty": (conversation(assistant={"content": ""}, tool=RAIN), "rain"),
    "no parts": (conversation(assistant={"content": []}, tool=RAIN), "rain"),
    "a refusal of null beside it": (conversation(assistant={"content": None, "refusal": None}, tool=RAIN), "rain"),
    "a tool that says null": (conversation(assistant={"content": None}, tool={"content": None}), ""),
    "a tool that says nothing": (conversation(assistant={"content": None}, tool={}), ""),
    "a tool with parts": (
        conversation(assistant={"content": None}, tool={"content": [{"type": "text", "text": "rain"}]}),
        "rain",
    ),
    "a tool with a name": (conversation(assistant={"content": None}, tool={"name": "w", **RAIN}), "rain"),
    "arguments with blanks": (
        conversation(assistant={"content": None}, tool=RAIN, arguments=' { "city" : "Oslo" } '),
        "rain",
    ),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("turn", TURNS)
async def test_the_turn_after_a_tool_call(bench: Bench, turn: str, model: str, stream: bool) -> None:
    messages, said = TURNS[turn]
    reply = await bench.chat("openai", model, messages=messages, stream=stream)
    assert reply.content == "ok"
    (request,) = bench.engine(model).requests
    user, assistant, tool = request.json()["messages"]
    assert (user["content"], tool["content"]) == ("weather?", said)
    assert (assistant["role"], tool["role"]) == ("assistant", "tool")
    assert not assistant.get("content")
    (call,) = assistant["tool_calls"]
    assert call["function"]["name"] == "w"
    if model == OLL:
        assert call["function"]["arguments"] == {"city": "Oslo"}
    else:
        assert call["id"] == tool["tool_call_id"] == "c1"
        assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("arguments", ["", "{}", " ", "null", None])
async def test_calls_without_arguments(bench: Bench, arguments: Any, model: str) -> None:
    messages = conversation(assistant={"content": None}, tool=RAIN, arguments=arguments)
    reply = await bench.chat("openai", model, messages=messages)
    assert reply.content == "ok"
    found = bench.engine(model).requests[0].json()["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert (found if model == OLL else json.loads(found)) == {}


@pytest.mark.parametrize("model", BOTH)
async def test_two_calls_keep_their_answers(bench: Bench, model: str) -> None:
    """Answered in the other order."""
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": f'{{"n":{i}}}'}}
        for i, name in enumerate(("one", "two"))
    ]
    messages = [
        {"role": "user", "content": "both?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "of two"},
        {"role": "tool", "tool_call_id": "c0", "content": "of one"},
    ]
    assert (await bench.chat("openai", model, messages=messages)).content == "ok"
    sent = bench.engine(model).requests[0].json()["messages"]
    key = "tool_name" if model == OLL else "tool_call_id"
    assert [(m[key], m["content"]) for m in sent[2:]] == [
        ("two" if model == OLL else "c1", "of two"),
        ("one" if model == OLL else "c0", "of one"),
    ]


@pytest.mark.parametrize("model", BOTH)
async def test_ollama_clients_call_tools_with_objects(bench: Bench, model: str) -> None:
    """Their calls have no ids, and their content may be missing too."""
    called = {"function": {"name": "w", "arguments": {"city": "Oslo"}}}
    content: dict[str, Any]
    for content in ({"content": ""}, {"content": None}, {}):
        bench.engine(model).requests.clear()
        messages = [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "tool_calls": [called], **content},
            {"role": "tool", "tool_name": "w", "content": "rain"},
        ]
        assert (await bench.chat("ollama", model, messages=messages, stream=False)).content == "ok"
        assistant, tool = bench.engine(model).requests[0].json()["messages"][1:]
        (call,) = assistant["tool_calls"]
        if model == OAI:
            assert call["id"] == tool["tool_call_id"] != ""
        assert tool["content"] == "rain"


EMPTY: list[dict[str, Any]] = [
    {"role": "user", "content": None},
    {"role": "user"},
    {"role": "system", "content": None},
    {"role": "user", "content": 7},
    {"role": "user", "content": {"text": "hi"}},
    {"role": "user", "content": [None]},
    {"role": "user", "content": [{"type": "text"}]},
    {"role": "user", "content": [{"type": "text", "text": None}]},
    {"role": "nobody", "content": "hi"},
    {"role": None, "content": "hi"},
    {"content": "hi"},
]


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("message", EMPTY, ids=json.dumps)
async def test_who_says_nothing_is_refused(bench: Bench, message: dict[str, Any], model: str) -> None:
    reply = await bench.chat("openai", model, messages=[message])
    assert refused(reply, "/v1/chat/completions"), (reply.status, reply.body)
    assert not bench.engine(model).requests
