import json

import pytest

from buffer.job import Content, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage
from gateway.dialects import openai
from tests.dialects.events import CALLS, CREATED, ID, TOKENS, chat, deltas, joined, sse, stream, whole


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
