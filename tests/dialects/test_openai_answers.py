import json

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from buffer.job import Content, End, Failure, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage
from gateway.dialects import openai
from tests.dialects.events import CREATED, ID, chat, sse, stream, whole

TOKENS = '[{"token":"a","logprob":-0.1,"bytes":[97],"top_logprobs":[]}]'
CALLS = [
    ToolDelta(0, "c0", "w"),
    ToolDelta(0, arguments='{"ci'),
    ToolDelta(0, arguments='ty":"Tok'),
    ToolDelta(0, arguments='yo"}'),
    ToolDelta(2, "c2", "now"),
    ToolDelta(2, arguments="{}"),
    Finish("tool_calls"),
]


def deltas(data):
    return [chunk["choices"][0]["delta"] for chunk in sse(data)[:-1] if chunk["choices"]]


def joined(data, index=0):
    """Text, thinking, calls and reason of one answer, as a client joins them."""
    text, thoughts, reason = "", "", None
    calls: dict[int, dict] = {}
    for chunk in sse(data)[:-1]:
        ChatCompletionChunk.model_validate(chunk, strict=False)
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            delta = choice["delta"]
            text += delta.get("content") or ""
            thoughts += delta.get("reasoning") or ""
            assert delta.get("reasoning") == delta.get("reasoning_content")
            for piece in delta.get("tool_calls", []):
                call = calls.setdefault(piece["index"], {"id": "", "name": "", "arguments": ""})
                call["id"] += piece.get("id", "")
                call["name"] += piece["function"].get("name", "")
                call["arguments"] += piece["function"].get("arguments", "")
            assert reason is None, "a word after the end"
            reason = choice["finish_reason"]
    return text, thoughts, [calls[place] for place in sorted(calls)], reason


def test_the_order_of_a_stream():
    events = [
        Origin("b1"),
        Reasoning("hm"),
        Content("Hi"),
        Content("!"),
        Finish("stop"),
        Usage(7, 3, cached=2, reasoning=1),
    ]
    chunks = sse(stream(openai, chat(stream=True, include_usage=True), events))
    assert chunks.pop() == "[DONE]"
    common = {
        "id": ID,
        "object": "chat.completion.chunk",
        "created": int(CREATED),
        "model": "Org/Model-X",
        "system_fingerprint": "b1",
    }
    assert all(chunk.items() >= common.items() for chunk in chunks)
    assert [chunk["choices"] for chunk in chunks] == [
        [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}],
        [
            {
                "index": 0,
                "delta": {"reasoning": "hm", "reasoning_content": "hm"},
                "logprobs": None,
                "finish_reason": None,
            }
        ],
        [{"index": 0, "delta": {"content": "Hi"}, "logprobs": None, "finish_reason": None}],
        [{"index": 0, "delta": {"content": "!"}, "logprobs": None, "finish_reason": None}],
        [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}],
        [],
    ]
    assert ["usage" in chunk for chunk in chunks] == [False] * 5 + [True]
    assert chunks[-1]["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }


def test_no_usage_chunk_unless_asked_for():
    chunks = sse(stream(openai, chat(stream=True), [Content("x"), Finish("stop"), Usage(7, 1)]))
    assert all(chunk["choices"] and "usage" not in chunk for chunk in chunks[:-1])


def test_usage_that_nobody_told_is_counted():
    chunks = sse(stream(openai, chat(include_usage=True), [Content("a"), Content("b"), Finish("stop")]))
    assert chunks[-2]["usage"] == {"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2}


def test_tool_calls_come_in_pieces_with_numbers_of_our_own():
    text, _, calls, reason = joined(stream(openai, chat(), CALLS))
    assert (text, reason) == ("", "tool_calls")
    assert calls == [
        {"id": "c0", "name": "w", "arguments": '{"city":"Tokyo"}'},
        {"id": "c2", "name": "now", "arguments": "{}"},
    ]


def test_a_call_without_arguments_gets_an_empty_object():
    _, _, calls, _ = joined(stream(openai, chat(), [ToolDelta(0, "c", "now"), Finish("stop")]))
    assert calls == [{"id": "c", "name": "now", "arguments": "{}"}]


def test_a_call_without_an_id_gets_one():
    events = [ToolDelta(0, "", "a"), ToolDelta(1, "", "b"), Finish("stop")]
    _, _, calls, reason = joined(stream(openai, chat(), events))
    assert [call["id"] for call in calls] == ["call_abc_0_0", "call_abc_0_1"]
    assert reason == "tool_calls"


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([Content("x"), Finish("stop")], "stop"),
        ([Content("x"), Finish("length")], "length"),
        ([Content("x"), Finish("content_filter")], "content_filter"),
        ([Content("x"), Finish("tool_calls")], "stop"),
        ([ToolDelta(0, "c", "f"), Finish("stop")], "tool_calls"),
        ([ToolDelta(0, "c", "f"), Finish("length")], "length"),
        ([Content("x")], "stop"),
        ([], "stop"),
    ],
)
def test_reasons(events, reason):
    data = stream(openai, chat(), events)
    assert joined(data)[3] == reason
    assert deltas(data)[0] == {"role": "assistant", "content": ""}
    assert whole(openai, chat(), events)[1]["choices"][0]["finish_reason"] == reason


def test_only_one_call_where_the_client_wants_no_more():
    asked = chat(parallel_tool_calls=False)
    assert [call["name"] for call in joined(stream(openai, asked, CALLS))[2]] == ["w"]
    assert [call["id"] for call in whole(openai, asked, CALLS)[1]["choices"][0]["message"]["tool_calls"]] == ["c0"]


@pytest.mark.parametrize("asked", [chat(think="off"), chat(show_reasoning=False), chat(think="off", logprobs=True)])
def test_thinking_that_is_not_to_be_seen_is_not(asked):
    events = [Logprobs(TOKENS), Reasoning("secret"), Logprobs(TOKENS), Content("x"), Finish("stop")]
    data = stream(openai, asked, events)
    assert b"secret" not in data
    assert b'"token"' not in data
    assert b"reasoning" not in data
    assert joined(data)[0] == "x"
    assert whole(openai, asked, events)[1]["choices"][0]["message"] == {
        "role": "assistant",
        "content": "x",
        "refusal": None,
    }


def test_several_answers_interleave():
    events = [
        Content("a", 0),
        Content("b", 1),
        Finish("stop", 0),
        Content("B", 1),
        Finish("length", 1),
        Content("?", 2),
    ]
    data = stream(openai, chat(n=2), events)
    assert joined(data, 0)[::3] == ("a", "stop")
    assert joined(data, 1)[::3] == ("bB", "length")
    roles = [c["choices"][0]["index"] for c in sse(data)[:-1] if "role" in c["choices"][0]["delta"]]
    assert roles == [0, 1]
    _, body = whole(openai, chat(n=2), events)
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in body["choices"]] == [
        (0, "a", "stop"),
        (1, "bB", "length"),
    ]


def test_logprobs():
    asked = chat(logprobs=True)
    events = [Content("a"), Logprobs(TOKENS), Content("b"), Logprobs(TOKENS), Finish("stop")]
    found = [c["choices"][0]["logprobs"] for c in sse(stream(openai, asked, events))[:-1]]
    assert [entry["content"] for entry in found if entry] == [json.loads(TOKENS)] * 2
    assert whole(openai, asked, events)[1]["choices"][0]["logprobs"]["content"] == json.loads(TOKENS) * 2
    assert b'"token"' not in stream(openai, chat(), events)


@pytest.mark.parametrize(
    "text", ["a\u2028b\u2029c\x85d", "温度 🌍 é", 'q"\\\n\r\t\0\x0b\x0c\x1c', "\ud800x", "a" * 100_000]
)
def test_texts_come_through(text):
    data = stream(openai, chat(), [Reasoning(text), Content(text), Finish("stop")])
    assert data.decode().splitlines() == data.decode().split("\n")[:-1]
    expected = text.replace("\ud800", "\ufffd")
    assert joined(data)[:2] == (expected, expected)
    message = whole(openai, chat(), [Reasoning(text), Content(text), Finish("stop")])[1]["choices"][0]["message"]
    assert (message["content"], message["reasoning"], message["reasoning_content"]) == (expected,) * 3


FAILURE = End("failed", Failure("backend connection lost"))


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
