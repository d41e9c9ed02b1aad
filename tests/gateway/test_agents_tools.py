"""Whole rounds of tools, as agents go through them, in front of every kind of back end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from buffer.backend import Kind
from tests.gateway.agents import clients
from tests.gateway.test_end_to_end import MODELS, House, house
from tests.rig.script import DONE, Piece, chunk, done, line, role, usage

LOOK = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ARGUMENTS = {"city": "Tōkyō"}


def calls(kind: Kind) -> list[Piece]:
    """An engine's answer with a word and two calls, in the words of its kind."""
    if kind == "ollama":
        found = [{"function": {"name": "look", "arguments": ARGUMENTS}}, {"function": {"name": "now", "arguments": {}}}]
        told = line("Well.")
        told["message"]["tool_calls"] = found
        return [told, done("stop", prompt=11, completion=7)]
    text = json.dumps(ARGUMENTS, ensure_ascii=False)
    first = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "look", "arguments": text[:5]}}
    second = {"index": 1, "id": "call_b", "type": "function", "function": {"name": "now", "arguments": ""}}
    return [
        role(),
        "Well.",
        chunk({"tool_calls": [first]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": text[5:]}}, second]}),
        chunk({}, "tool_calls"),
        usage(11, 7),
        DONE,
    ]


@pytest.mark.parametrize("kind", MODELS)
async def test_a_tool_round_of_a_claude_in_front_of_each_kind_of_back_end(kind: Kind) -> None:
    tools: Any = [
        {"name": "look", "description": "Looks.", "input_schema": LOOK},
        {"name": "now", "input_schema": {"type": "object"}},
    ]
    messages: Any = [{"role": "user", "content": "Where?"}]
    async with house(kind) as h, clients(h.url) as (claude, _):
        h.engines[kind].once = [calls(kind), calls(kind)]
        asked: Any = {"model": MODELS[kind], "max_tokens": 100, "messages": messages, "tools": tools}
        whole = await claude.messages.create(**asked)
        async with claude.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        for message in (whole, streamed):
            text, *uses = message.content
            assert text.type == "text"
            assert [(use.name, use.input) for use in uses if use.type == "tool_use"] == [
                ("look", ARGUMENTS),
                ("now", {}),
            ]
            assert message.stop_reason == "tool_use"
        _, told = _told(h, kind), h.engines[kind].requests[0].json()
        assert [tool["function"]["name"] for tool in told["tools"]] == ["look", "now"]
        assert told["tools"][0]["function"]["parameters"] == LOOK
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": f"result {number}"}
            for number, use in enumerate(streamed.content[1:])
            if use.type == "tool_use"
        ]
        messages += [{"role": "assistant", "content": streamed.content}, {"role": "user", "content": results}]
        last = await claude.messages.create(**asked)
        assert last.stop_reason == "end_turn"
        _sees_round(_told(h, kind), kind)
        await h.quiet()


@pytest.mark.parametrize("kind", MODELS)
async def test_a_tool_round_of_a_codex_in_front_of_each_kind_of_back_end(kind: Kind) -> None:
    tools: Any = [
        {"type": "function", "name": "look", "description": "Looks.", "parameters": LOOK, "strict": False},
        {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}, "strict": False},
        {"type": "web_search"},
    ]
    items: Any = [{"role": "user", "content": "Where?"}]
    async with house(kind) as h, clients(h.url) as (_, gpt):
        h.engines[kind].once = [calls(kind), calls(kind)]
        asked: Any = {"model": MODELS[kind], "input": items, "tools": tools, "store": False}
        whole = await gpt.responses.create(**asked)
        async with gpt.responses.stream(**asked) as stream:
            streamed = await stream.get_final_response()
        for response in (whole, streamed):
            found = [
                (item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"
            ]
            assert found == [("look", ARGUMENTS), ("now", {})]
            assert response.output_text == "Well."
        items += streamed.output
        made = [item for item in streamed.output if item.type == "function_call"]
        items += [
            {"type": "function_call_output", "call_id": call.call_id, "output": f"result {number}"}
            for number, call in enumerate(made)
        ]
        last = await gpt.responses.create(**asked)
        assert last.output_text
        _sees_round(_told(h, kind), kind)
        await h.quiet()


def _told(h: House, kind: Kind) -> list[dict[str, Any]]:
    """The messages that the engine was sent last."""
    found: list[dict[str, Any]] = h.engines[kind].requests[-1].json()["messages"]
    return found


def _sees_round(messages: list[dict[str, Any]], kind: Kind) -> None:
    user, assistant, first, second = messages
    assert (user["role"], assistant["role"], assistant["content"]) == ("user", "assistant", "Well.")
    made = [call["function"]["arguments"] for call in assistant["tool_calls"]]
    assert [arguments if kind == "ollama" else json.loads(arguments) for arguments in made] == [ARGUMENTS, {}]
    assert [(result["role"], result["content"]) for result in (first, second)] == [
        ("tool", "result 0"),
        ("tool", "result 1"),
    ]
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids
