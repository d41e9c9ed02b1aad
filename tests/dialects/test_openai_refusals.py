import json

import pytest

from gateway.dialects import openai
from gateway.dialects.errors import BadRequest

MESSAGES = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "w", "parameters": {"type": "object"}}}


def parse(**fields):
    return openai.parse_chat(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def raw(value):
    return None if value is None else json.loads(bytes(value))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"model": ""}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [5]}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages"),
        ({"messages": [{"role": 5, "content": "x"}]}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]}, "messages[0].content[0]"),
        ({"stream": "yes"}, "stream"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"seed": 2**64}, "seed"),
        ({"seed": []}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"stop": 5}, "stop"),
        ({"stop": [None]}, "stop"),
        ({"stop": ["x"] * 257}, "stop"),
        ({"tools": {}}, "tools"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0]"),
        ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
        ({"logprobs": 3}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
        ({"format": "yaml"}, "format"),
        ({"stream_options": 5}, "stream_options"),
        ({"options": []}, "options"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"structured_outputs": {"json": 5}}, "structured_outputs.json"),
    ],
)
def test_wrong_fields(fields, param):
    with pytest.raises(BadRequest) as caught:
        parse(**fields)
    assert caught.value.status == 400
    assert caught.value.param == param
    shown = json.loads(openai.error(caught.value.failure))["error"]
    assert shown == {
        "message": caught.value.message,
        "type": "invalid_request_error",
        "param": param or None,
        "code": None,
    }


@pytest.mark.parametrize(
    "body", [b"", b"  \n", b"[]", b"5", b'"x"', b"null", b'{"model":', b"\xff\xfe{", b"{'a':1}", b'{"a":NaN}']
)
def test_bodies_that_are_no_object(body):
    with pytest.raises(BadRequest) as caught:
        openai.parse_chat(body)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"deep":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"tools":['
        + b'{"a":' * 900
        + b"1"
        + b"}" * 900
        + b"]}",
        b'{"model":"m","messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_nesting_bombs(body):
    with pytest.raises(BadRequest):
        openai.parse_chat(body)


def test_brackets_within_texts_are_no_nesting():
    chat = parse(extra_text="[{" * 500, wide=[{"a": [1]}] * 500)
    assert raw(chat.extra["extra_text"]) == "[{" * 500


@pytest.mark.parametrize("text", [b'"\\ud800"', b'"\\udc00 x"', b'"\xed\xa0\x80"', b'"\xff"'])
def test_texts_that_are_no_unicode(text):
    for body in (
        b'{"model":"m","messages":[{"role":"user","content":%b}]}',
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"carried":[%b]}',
    ):
        with pytest.raises(BadRequest):
            openai.parse_chat(body % text)


def test_nul_and_line_separators_are_kept():
    text = "a\0b\x85c\u2028d😀"
    assert parse(messages=[{"role": "user", "content": text}]).messages[0].content == text
