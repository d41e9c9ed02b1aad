"""The scripted engines refuse what the real ones refuse, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.openai_chats import LOOK, PIXEL, TOOLS
from tests.rig.connection import Recorded
from tests.rig.strict import judge

USER = {"role": "user", "content": "x"}
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
EVERYWHERE = ("vllm", "openai", "llamacpp")
STRICT = ("vllm", "openai")


def refusal(kind: str, path: str, body: Any, content_type: str = "application/json") -> int:
    """The status of a refusal; 0 if there is none."""
    request = Recorded(0.0, "POST", path, {"content-type": content_type}, json.dumps(body).encode(), 1)
    said = judge(kind, ["m"])(path, request)
    assert not isinstance(said, list)
    return 0 if said is None else said.code


@pytest.mark.parametrize("kind", EVERYWHERE)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"stream": True, "stream_options": {"include_usage": True}, "n": 2, "seed": 1, "stop": ["a"] * 4},
        {"tools": TOOLS, "tool_choice": "auto", "logprobs": True, "top_logprobs": 2},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": LOOK}}},
        {
            "messages": [
                USER,
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c", "content": ""},
            ]
        },
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
    ],
)
def test_what_all_servers_of_openais_api_take(kind: str, more: dict[str, Any]) -> None:
    assert refusal(kind, "/v1/chat/completions", {"model": "m", "messages": [USER], **more}) == 0


@pytest.mark.parametrize(
    ("kinds", "more"),
    [
        (STRICT, {"tools": []}),
        (STRICT, {"stream_options": {"include_usage": True}}),
        (STRICT, {"stop": ["1", "2", "3", "4", "5"]}),
        (STRICT, {"stop": ["", "a"]}),
        (STRICT, {"temperature": None}),
        (STRICT, {"temperature": 3}),
        (STRICT, {"top_p": 0}),
        (STRICT, {"max_tokens": 0}),
        (STRICT, {"response_format": {"type": "json_schema", "json_schema": {"schema": LOOK}}}),
        (EVERYWHERE, {"tool_choice": "auto"}),
        (EVERYWHERE, {"top_logprobs": 3}),
        (EVERYWHERE, {"messages": []}),
        (EVERYWHERE, {"messages": [{"role": "user"}]}),
        (EVERYWHERE, {"messages": [USER, {"role": "assistant", "tool_calls": [CALL | {"type": None}]}]}),
        (EVERYWHERE, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:,"}]}]}),
        (("vllm",), {"continue_final_message": True, "add_generation_prompt": True}),
        (("llamacpp",), {"chat_template_kwargs": {"enable_thinking": "false"}}),
        (("llamacpp",), {"repeat_last_n": -1}),
        (("llamacpp",), {"n": 9}),
        (("llamacpp",), {"stream": True, "tools": TOOLS, "logprobs": True}),
        (("llamacpp",), {"messages": [{"role": "assistant", "content": "a"}] * 2}),
    ],
)
def test_what_servers_of_openais_api_refuse(kinds: tuple[str, ...], more: dict[str, Any]) -> None:
    for kind in kinds:
        assert refusal(kind, "/v1/chat/completions", {"model": "m", "messages": [USER], **more}) == 400


def test_a_model_that_is_not_served_and_a_type_that_is_not_json() -> None:
    body = {"model": "other", "messages": [USER]}
    assert [refusal(kind, "/v1/chat/completions", body) for kind in ("vllm", "openai", "llamacpp")] == [404, 404, 0]
    assert refusal("ollama", "/api/chat", body) == 404
    assert refusal("vllm", "/v1/chat/completions", body | {"model": "m"}, "text/plain") == 400


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, 0),
        (
            {
                "think": "max",
                "keep_alive": "-1m",
                "format": LOOK,
                "tools": TOOLS,
                "options": {"stop": ["a"], "top_k": 1.5},
            },
            0,
        ),
        ({"messages": [USER | {"images": [PIXEL]}]}, 0),
        ({"messages": [USER | {"images": [f"data:image/png;base64,{PIXEL}"]}]}, 400),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, 400),
        ({"messages": [{"role": "assistant", "tool_calls": [CALL]}]}, 400),
        ({"keep_alive": "300"}, 400),
        ({"think": "true"}, 400),
        ({"format": "yaml"}, 400),
        ({"stream": "yes"}, 400),
        ({"options": {"stop": "a"}}, 500),
        ({"options": {"temperature": "1"}}, 500),
        ({"options": []}, 400),
    ],
)
def test_what_ollama_takes_and_refuses(more: dict[str, Any], status: int) -> None:
    assert refusal("ollama", "/api/chat", {"model": "m", "messages": [USER], **more}) == status
