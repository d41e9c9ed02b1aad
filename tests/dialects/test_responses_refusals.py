"""Which a Responses bodies are refused, and in which words."""

import json

import pytest

from gateway.dialects.errors import BadRequest
from gateway.dialects.responses import parse_chat

ONE_REQUIRED = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]}
OTHER = {"type": "function", "name": "other", "parameters": {"type": "object", "properties": {}}}


def read(**fields):
    return parse_chat(json.dumps({"model": "m", "input": "Hello", **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"model": None}, "model", "model"),
        ({"model": 3}, "model", "a string"),
        ({"input": None}, "input", "Missing"),
        ({"input": []}, "input", "at least one"),
        ({"input": 7}, "input", "Invalid"),
        ({"input": [{}]}, "input[0].type", "Missing"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]", "stored"),
        ({"input": [{"type": "hologram"}]}, "input[0]", "hologram"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "'user'"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0]", "call_id"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
            "input[0].content[0]",
            "Files",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input[0].content[0]",
            "Files",
        ),
        ({"input": [{"role": "user", "content": [{"type": "odd"}]}]}, "input[0].content[0]", "a part"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x/y"}]}]},
            "input[0].content[0]",
            "not currently supported",
        ),
        ({"instructions": 3}, "instructions", "a string"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "stored"),
        ({"conversation": "c"}, "conversation", "stored"),
        ({"prompt": {"id": "p"}}, "prompt", "stored"),
        ({"background": True}, "background", "background"),
        ({"max_output_tokens": 0}, "max_output_tokens", "at least 1"),
        ({"reasoning": {"effort": "utmost"}}, "reasoning.effort", "Supported"),
        ({"reasoning": "high"}, "reasoning", "an object"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "'text'"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema", "an object"),
        ({"tools": [{"type": "function"}]}, "tools[0].name", "a name"),
        ({"tools": [{"type": "namespace", "name": "n"}]}, "tools[0]", "namespace"),
        ({"tools": [{"type": "function", "name": "f", "parameters": []}]}, "tools[0].parameters", "an object"),
        ({"tool_choice": "some"}, "tool_choice", "'none'"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice", "'none'"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.tools", "an array"),
        ({"tool_choice": ONE_REQUIRED}, "tool_choice", "none of the tools"),
        ({"tool_choice": ONE_REQUIRED, "tools": [OTHER]}, "tool_choice", "none of the tools"),
        ({"tool_choice": {**ONE_REQUIRED, "tools": []}, "tools": [OTHER]}, "tool_choice", "none of the tools"),
        ({"include": "x"}, "include", "an array"),
        ({"metadata": []}, "metadata", "an object"),
        ({"temperature": []}, "temperature", "a number"),
    ],
)
def test_refusals(fields, param, words):
    with pytest.raises(BadRequest) as refused:
        read(**fields)
    assert refused.value.param == param
    assert words in str(refused.value)
    assert refused.value.failure.status == 400
