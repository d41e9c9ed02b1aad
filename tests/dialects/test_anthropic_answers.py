"""Anthropic's answers, checked with the types of its own client."""

import json

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from buffer.job import Content, End, Failure, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage
from gateway.dialects import anthropic
from tests.dialects.events import CALLS, CREATED, FAILURE, TOKENS, chat

EVENT: TypeAdapter = TypeAdapter(RawMessageStreamEvent)
BAD_CALL = [ToolDelta(0, "c", "f", '{"a":'), Finish("tool_calls")]


def events(data):
    """The events of a stream: their names in the order they came, and what they hold."""
    assert data.endswith(b"\n\n")
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        name, body = block.split("\n")
        event = json.loads(body.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        if event["type"] not in {"error", "ping"}:
            EVENT.validate_json(json.dumps(event))
        found.append(event)
    return found


def stream(asked, found, end=None):
    answer = anthropic.Stream(asked, id="abc", created=CREATED, request_id="req")
    return events(answer.feed(found, CREATED) + answer.end(end or End("done"), CREATED, queued_s=0.5))


def whole(asked, found, end=None):
    answer = anthropic.Whole(asked, id="abc", created=CREATED, request_id="req")
    assert answer.feed(found, CREATED) == b""
    status, body = answer.end(end or End("done"), CREATED, queued_s=0.5)
    if status == 200:
        Message.model_validate_json(body)
    return status, json.loads(body)


def test_the_order_of_a_stream():
    found = [Origin("b"), Reasoning("h"), Reasoning("m"), Content("\n\n"), Content("Hi"), Content("!"), Finish("stop")]
    told = stream(chat(), [*found, Usage(10, 5, cached=4, reasoning=2)])
    assert [(event["type"], event.get("index")) for event in told] == [
        ("message_start", None),
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("message_delta", None),
        ("message_stop", None),
    ]
    start = told[0]["message"]
    assert (start["id"], start["model"], start["content"], start["stop_reason"]) == ("msg_abc", "Org/Model-X", [], None)
    assert start["usage"]["input_tokens"] >= 1
    assert told[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert [event["delta"] for event in told if event["type"] == "content_block_delta"] == [
        {"type": "thinking_delta", "thinking": "h"},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "signature_delta", "signature": "abc"},
        {"type": "text_delta", "text": "\n\nHi"},
        {"type": "text_delta", "text": "!"},
    ]
    assert told[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert told[-2]["usage"] == {
        "input_tokens": 6,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
    }


def test_tool_calls_are_told_whole_and_last():
    told = stream(chat(), [Content("Well."), *CALLS, Usage(1, 1)])
    starts = [event["content_block"] for event in told if event["type"] == "content_block_start"]
    assert starts == [
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "c0", "name": "w", "input": {}},
        {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
    ]
    deltas = [event["delta"] for event in told if event["type"] == "content_block_delta"]
    assert deltas[1:] == [
        {"type": "input_json_delta", "partial_json": '{"city":"Tokyo"}'},
        {"type": "input_json_delta", "partial_json": "{}"},
    ]
    assert told[-2]["delta"]["stop_reason"] == "tool_use"
    assert whole(chat(), [Content("Well."), *CALLS])[1]["content"] == [
        {"type": "text", "text": "Well."},
        {"type": "tool_use", "id": "c0", "name": "w", "input": {"city": "Tokyo"}},
        {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
    ]


def test_pieces_of_calls_may_come_in_any_order():
    found = [
        ToolDelta(0, "a", "f", "{"),
        ToolDelta(1, "b", "g", '{"x"'),
        ToolDelta(0, arguments="}"),
        ToolDelta(1, arguments=":1}"),
    ]
    content = whole(chat(), [*found, Finish("stop")])[1]["content"]
    assert [(block["name"], block["input"]) for block in content] == [("f", {}), ("g", {"x": 1})]


def test_blanks_before_calls_and_words_after_them_are_no_part_of_the_answer():
    found = [Reasoning("hm"), Content("\n\n"), ToolDelta(0, "c", "f", "{}"), Content("\nwherefore"), Finish("stop")]
    assert [block["type"] for block in whole(chat(), found)[1]["content"]] == ["thinking", "tool_use"]
    assert "wherefore" not in json.dumps(stream(chat(), found))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ([Content("x"), Finish("stop")], "end_turn"),
        ([Content("x"), Finish("length")], "max_tokens"),
        ([Content("x"), Finish("content_filter")], "refusal"),
        ([Content("x"), Finish("tool_calls")], "end_turn"),
        ([ToolDelta(0, "c", "f"), Finish("stop")], "tool_use"),
        ([ToolDelta(0, "c", "f"), Finish("length")], "max_tokens"),
        ([Content("x")], "end_turn"),
        ([], "end_turn"),
    ],
)
def test_reasons(found, reason):
    assert stream(chat(), found)[-2]["delta"]["stop_reason"] == reason
    assert whole(chat(), found)[1]["stop_reason"] == reason


@pytest.mark.parametrize("found", [[], [Finish("stop")], [Content(" "), Finish("stop")]])
def test_an_answer_of_nothing_has_a_block_all_the_same(found):
    (block,) = whole(chat(), found)[1]["content"]
    assert (block["type"], block["text"].strip()) == ("text", "")
    assert [event["type"] for event in stream(chat(), found)].count("content_block_start") == 1


def test_a_call_that_the_length_cut_off_is_left_out():
    found = [Content("x"), ToolDelta(0, "a", "f", "{}"), ToolDelta(1, "b", "g", '{"x'), Finish("length")]
    status, body = whole(chat(), found)
    assert (status, body["stop_reason"]) == (200, "max_tokens")
    assert [block["type"] for block in body["content"]] == ["text", "tool_use"]


def test_a_call_that_nobody_can_read_is_a_failure():
    status, body = whole(chat(), BAD_CALL)
    assert status == 502
    assert body["error"]["type"] == "api_error"
    *_, last = stream(chat(), BAD_CALL)
    assert last["type"] == "error"
    assert "not a JSON object" in last["error"]["message"]


@pytest.mark.parametrize("asked", [chat(think="off"), chat(show_reasoning=False)])
def test_thinking_that_is_not_to_be_seen_is_not(asked):
    found = [Logprobs(TOKENS), Reasoning("secret"), Content("x"), Finish("stop")]
    assert "secret" not in json.dumps(stream(asked, found))
    assert [block["type"] for block in whole(asked, found)[1]["content"]] == ["text"]


def test_usage_that_nobody_told_is_estimated():
    told = stream(chat(), [Content("a"), Content("b"), Finish("stop")])
    assert told[-2]["usage"]["output_tokens"] == 2
    assert told[-2]["usage"]["input_tokens"] == told[0]["message"]["usage"]["input_tokens"]


def test_a_failure_in_the_middle():
    told = stream(chat(), [Content("Hel")], FAILURE)
    assert told[-1] == {
        "type": "error",
        "error": {"type": "api_error", "message": "backend connection lost"},
        "request_id": "req",
    }
    assert [event["type"] for event in told[:3]] == ["message_start", "content_block_start", "content_block_delta"]
    assert stream(chat(), [Content("x"), Finish("stop")], FAILURE)[-1]["type"] == "message_stop"
    assert [event["type"] for event in stream(chat(), [], FAILURE)] == ["error"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors(status, kind):
    assert json.loads(anthropic.error(Failure("no", status), "r-1")) == {
        "type": "error",
        "error": {"type": kind, "message": "no"},
        "request_id": "r-1",
    }


def test_a_heartbeat_is_a_ping():
    answer = anthropic.Stream(chat(), id="abc")
    assert events(answer.heartbeat(CREATED)) == [{"type": "ping"}]


@pytest.mark.parametrize("text", ["a\u2028b\u2029c\x85d", "温度 🌍 é", 'q"\\\n\r\t\0\x0b', "\ud800x"])
def test_texts_come_through(text):
    found = [Reasoning(text), Content(text), Finish("stop")]
    expected = text.replace("\ud800", "\ufffd")
    body = whole(chat(), found)[1]
    assert (body["content"][0]["thinking"], body["content"][1]["text"]) == (expected, expected)
    deltas = [event["delta"] for event in stream(chat(), found) if event["type"] == "content_block_delta"]
    assert (deltas[0]["thinking"], deltas[2]["text"]) == (expected, expected)
