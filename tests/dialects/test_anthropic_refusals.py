"""Which an Anthropic bodies are refused, and in which words."""

import json

import pytest

from gateway.dialects.anthropic import parse_chat
from gateway.dialects.errors import BadRequest


def read(**fields):
    body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}], **fields}
    return parse_chat(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"model": ""}, "model", "required"),
        ({"model": 3}, "model", "a string"),
        ({"max_tokens": None}, "max_tokens", "required"),
        ({"thread": {"type": "continue", "previous_message_id": "msg_1"}}, "thread", "nothing is stored"),
        ({"max_tokens": 0}, "max_tokens", "greater"),
        ({"max_tokens": "7"}, "max_tokens", "an integer"),
        ({"messages": None}, "messages", "required"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": "x"}, "messages", "array"),
        ({"messages": [{"role": "system", "content": "a"}]}, "messages", "at least one"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role", "'user'"),
        ({"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}, "messages.0.content.0", "hologram"),
        ({"messages": [{"role": "assistant", "content": [{"type": "image"}]}]}, "messages.0.content.0", "image"),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}]},
            "messages.0.content.0",
            "name",
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}
                ]
            },
            "messages.0.content.0.source",
            "base64",
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x/y"}}]}
                ]
            },
            "messages.0.content.0",
            "not currently supported",
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "document", "source": {"type": "base64", "data": "aGk="}}]}
                ]
            },
            "messages.0.content.0.source",
            "plain text",
        ),
        ({"system": 5}, "system", "a string or an array"),
        ({"thinking": {"type": "perhaps"}}, "thinking.type", "enabled"),
        ({"thinking": True}, "thinking", "an object"),
        ({"output_config": {"effort": "utmost"}}, "output_config.effort", "high"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format", "json_schema"),
        ({"stop_sequences": 3}, "stop_sequences", "array"),
        ({"temperature": "hot"}, "temperature", "a number"),
        ({"tools": [{"input_schema": {}}]}, "tools.0.name", "a name"),
        ({"tools": [{"name": "f", "input_schema": []}]}, "tools.0.input_schema", "an object"),
        ({"tools": {}}, "tools", "an array"),
        ({"tool_choice": "auto"}, "tool_choice.type", "'auto'"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name", "required"),
    ],
)
def test_refusals(fields, param, words):
    with pytest.raises(BadRequest) as refused:
        read(**fields)
    assert refused.value.param == param
    assert words in str(refused.value)
    assert refused.value.failure.status == 400
