import json

import pytest
from openai.types.chat import ChatCompletion

from buffer.job import Content, End, Failure, Finish, Origin, Reasoning, Usage
from gateway.dialects import openai
from tests.dialects.events import CALLS, CREATED, FAILURE, ID, chat, joined, sse, stream, whole


@pytest.mark.parametrize("before", [[], [Content("one"), Content("two")]])
def test_a_failure_on_the_way(before):
    chunks = sse(stream(openai, chat(include_usage=True), before, FAILURE))
    assert chunks[-2:] == [
        {
            "error": {
                "message": "backend connection lost",
                "type": "server_error",
                "param": None,
                "code": "upstream_error",
            }
        },
        "[DONE]",
    ]
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks[:-2])


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        (FAILURE, 502, "upstream_error"),
        (End("failed"), 502, "upstream_error"),
        (End("expired"), 503, "queue_timeout"),
        (End("cancelled"), 499, "cancelled"),
        (
            End("failed", Failure("too long", 400, "context_length_exceeded", "messages")),
            400,
            "context_length_exceeded",
        ),
    ],
)
def test_a_failure_instead_of_a_whole_answer(end, status, code):
    found, body = whole(openai, chat(), [Content("half")], end)
    assert (found, body["error"]["code"]) == (status, code)
    assert "choices" not in body


def test_a_failure_after_the_whole_answer_is_none():
    events = [Content("x"), Finish("stop")]
    assert joined(stream(openai, chat(), events, FAILURE))[::3] == ("x", "stop")
    assert whole(openai, chat(), events, FAILURE)[0] == 200


@pytest.mark.parametrize(
    ("failure", "kind", "code"),
    [
        (Failure("x", 400, ""), "invalid_request_error", None),
        (Failure("x", 400, "upstream_error"), "invalid_request_error", None),
        (Failure("x", 401, "invalid_api_key"), "invalid_request_error", "invalid_api_key"),
        (openai.unknown_model("x"), "not_found_error", "model_not_found"),
        (Failure("x", 422, ""), "invalid_request_error", None),
        (Failure("x", 429, "rate_limit_exceeded", retry_after_s=3), "rate_limit_error", "rate_limit_exceeded"),
        (Failure("x", 503, "queue_full"), "server_error", "queue_full"),
    ],
)
def test_error_bodies(failure, kind, code):
    shown = json.loads(openai.error(failure))["error"]
    assert (shown["type"], shown["code"]) == (kind, code)
    assert shown["message"]


def test_a_whole_answer():
    events = [Origin("b1"), Reasoning("h"), Reasoning("m"), Content("H"), Content("i"), Finish("stop"), Usage(3, 4)]
    status, body = whole(openai, chat(), events)
    assert status == 200
    assert body == {
        "id": ID,
        "object": "chat.completion",
        "created": int(CREATED),
        "model": "Org/Model-X",
        "system_fingerprint": "b1",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hi",
                    "refusal": None,
                    "reasoning": "hm",
                    "reasoning_content": "hm",
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }
    ChatCompletion.model_validate(body)


def test_whole_tool_calls():
    _, body = whole(openai, chat(), CALLS)
    ChatCompletion.model_validate(body)
    message = body["choices"][0]["message"]
    assert message["content"] is None
    assert [
        (c["id"], c["type"], c["function"]["name"], json.loads(c["function"]["arguments"]))
        for c in message["tool_calls"]
    ] == [
        ("c0", "function", "w", {"city": "Tokyo"}),
        ("c2", "function", "now", {}),
    ]
    _, body = whole(openai, chat(), [Content("let me see"), *CALLS])
    assert body["choices"][0]["message"]["content"] == "let me see"


def test_a_heartbeat_is_a_comment():
    answer = openai.Stream(chat(), id=ID, created=CREATED)
    assert answer.heartbeat(CREATED) == b": keep-alive\n\n"
    assert not answer.finished


def test_events_that_say_nothing_write_nothing():
    answer = openai.Stream(chat(), id=ID, created=CREATED)
    assert answer.feed([Origin("x"), Usage(1, 0)], CREATED) == b""
    assert answer.feed([Content("")], CREATED).count(b"data:") == 1
