"""Bodies that are read in one go come to the same as those that are taken apart field by field."""

from __future__ import annotations

import itertools
import json

import pytest

from gateway.dialects.errors import BadRequest
from gateway.dialects.openai import parse_any, parse_chat
from gateway.dialects.openai_plain import parse_plain

_HELLO = {"role": "user", "content": "Hello"}
_LEAST = {"model": "m", "messages": [_HELLO]}
_VALUES = {
    "stream": (True, False, None, "true", 1, [True]),
    "stream_options": ({"include_usage": True}, {"include_usage": False, "x": 1}, {"include_usage": None}, {}, None, 3),
    "max_tokens": (1, 64, 0, -1, 2**63 - 1, 2**63, 10**400, 64.0, 64.5, 1e30, True, "5", None),
    "max_completion_tokens": (1, 32, 0, -1, None, 7.9, "x"),
    "temperature": (0, 1, 0.7, -3, 10**400, True, "0.1", None, 2**70),
    "top_p": (0.5, 1, [], None),
    "seed": (1, -(2**63), -(2**63) - 1, 2**64, 3.0, 3.2, None, False),
    "presence_penalty": (0.1, None, {}),
    "frequency_penalty": (2, None, "a"),
    "model": ("", "ä/漢", None, 3, ["m"]),
    "messages": (
        [],
        None,
        {},
        "Hello",
        [_HELLO, None],
        [{"role": "user"}],
        [{"role": "nobody", "content": "x"}],
        [{"role": "developer", "content": "Be brief", "name": "x"}, {"role": "user", "content": "ä \U0001f98a"}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}],
        [
            _HELLO,
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "content": "3"},
            {"role": "function", "name": "f", "content": None},
        ],
        [{"role": "assistant", "reasoning_content": "Hm", "content": None, "unknown": {"x": [1]}}],
    ),
    "user": ("me",),
    "tools": ([], [{"type": "function", "function": {"name": "f"}}]),
    "n": (1, 2, 0),
    "stop": ("x", ["a", ""]),
    "think": (True,),
    "options": ({}, {"num_predict": 3}),
}


def _outcome(parse: object, body: bytes) -> object:
    try:
        return parse(body)  # type: ignore[operator]
    except BadRequest as error:
        return (error.message, error.status, error.param, error.code)


def _same(body: bytes) -> None:
    any_way = _outcome(lambda body: parse_any(body, allow_links=False), body)
    assert _outcome(parse_chat, body) == any_way, body


def test_each_field_by_itself() -> None:
    for name, values in _VALUES.items():
        for value in values:
            _same(json.dumps({**_LEAST, name: value}).encode())
            _same(json.dumps({**_LEAST, name: value}, ensure_ascii=False).encode())


def test_two_fields_together() -> None:
    for one, other in itertools.combinations(_VALUES, 2):
        for mine, yours in itertools.product(_VALUES[one], _VALUES[other]):
            _same(json.dumps({**_LEAST, one: mine, other: yours}).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[]",
        b"null",
        b"\xef\xbb\xbf" + json.dumps(_LEAST).encode(),
        b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
        b'{"model":"m","model":"k","messages":[{"role":"user","content":"a"}],"stream":true,"stream":null}',
        b'{"model":"m","model":null,"messages":[{"role":"user","content":"a"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"a","x":' + b"[" * 5000 + b"]" * 5000 + b"}]}",
        b'{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":1e999}',
        b'{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":1e2}',
        b'{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":01}',
        b'{"model":"m","messages":[{"role":"user","content":"a"}]} x',
    ],
)
def test_odd_bytes(body: bytes) -> None:
    _same(body)


def test_most_bodies_are_read_in_one_go() -> None:
    asked = {**_LEAST, "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 5, "temperature": 0.2}
    assert parse_plain(json.dumps(asked).encode(), allow_links=False) is not None
    assert parse_plain(json.dumps({**_LEAST, "tools": []}).encode(), allow_links=False) is None
