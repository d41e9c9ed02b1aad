"""Answers in the form of OpenAI's Responses, checked with the types of its own client."""

import json

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from buffer.job import Content, End, Failure, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage
from gateway.dialects import responses
from tests.dialects.events import CALLS, CREATED, FAILURE, TOKENS

EVENT: TypeAdapter = TypeAdapter(ResponseStreamEvent)
TOOL = {"type": "function", "name": "look", "description": "D", "parameters": {"type": "object"}}


def asked(**fields):
    return responses.parse_chat(json.dumps({"model": "Org/Model-X", "input": "x", **fields}).encode())


def events(data):
    """The events of a stream, each of which its official client can read."""
    assert data.endswith(b"\n\n")
    assert b"[DONE]" not in data
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        name, body = block.split("\n")
        event = json.loads(body.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        EVENT.validate_json(json.dumps(event))
        found.append(event)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def stream(chat, found, end=None):
    answer = responses.Stream(chat, id="abc", created=CREATED)
    return events(answer.feed(found, CREATED) + answer.end(end or End("done"), CREATED, queued_s=0.5))


def whole(chat, found, end=None):
    answer = responses.Whole(chat, id="abc", created=CREATED)
    assert answer.feed(found, CREATED) == b""
    status, body = answer.end(end or End("done"), CREATED, queued_s=0.5)
    if status == 200:
        Response.model_validate_json(body)
    return status, json.loads(body)


def test_the_order_of_a_stream():
    found = [Origin("b"), Reasoning("h"), Reasoning("m"), Content("\n"), Content("Hi"), Content("!"), Finish("stop")]
    told = stream(asked(), [*found, Usage(10, 5, cached=4, reasoning=2)])
    order = """
    created in_progress
    output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.delta
    reasoning_summary_text.done reasoning_summary_part.done output_item.done
    output_item.added content_part.added output_text.delta output_text.delta output_text.done content_part.done
    output_item.done completed
    """
    assert [event["type"].removeprefix("response.") for event in told] == order.split()
    assert {event["output_index"] for event in told[2:9]} == {0}
    assert {event["output_index"] for event in told[9:16]} == {1}
    assert {event["item_id"] for event in told if "item_id" in event} == {"rs_abc_0", "msg_abc_1"}
    assert (told[6]["text"], told[13]["text"]) == ("hm", "\nHi!")
    first, last = told[0]["response"], told[-1]["response"]
    assert first.items() >= {"id": "resp_abc", "status": "in_progress", "output": [], "usage": None}.items()
    assert last.items() >= {"id": "resp_abc", "status": "completed", "created_at": int(CREATED)}.items()
    assert last["output"] == [told[8]["item"], told[15]["item"]]
    assert last["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }


def test_tool_calls_are_told_whole_and_last():
    told = stream(asked(), [Content("Well."), *CALLS])
    calls = [event for event in told if event.get("output_index") == 1]
    assert [event["type"].removeprefix("response.") for event in calls] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert calls[0]["item"].items() >= {"call_id": "c0", "name": "w", "arguments": "", "status": "in_progress"}.items()
    assert calls[1]["delta"] == calls[2]["arguments"] == calls[3]["item"]["arguments"] == '{"city":"Tokyo"}'
    text, first, second = whole(asked(), [Content("Well."), *CALLS])[1]["output"]
    assert text["content"][0]["text"] == "Well."
    assert first == {
        "id": "fc_abc_1",
        "type": "function_call",
        "status": "completed",
        "arguments": '{"city":"Tokyo"}',
        "call_id": "c0",
        "name": "w",
    }
    assert (second["call_id"], second["arguments"]) == ("c2", "{}")


def test_a_call_in_a_namespace_is_told_by_its_own_name():
    chat = asked(tools=[{"type": "namespace", "name": "crm", "description": "", "tools": [TOOL]}])
    found = [ToolDelta(0, "c", "crm__look", "{}"), Finish("tool_calls")]
    (item,) = whole(chat, found)[1]["output"]
    assert (item["namespace"], item["name"]) == ("crm", "look")
    assert [e["item"]["namespace"] for e in stream(chat, found) if "item" in e] == ["crm", "crm"]


def test_a_call_that_nobody_can_read_is_for_the_client_to_answer():
    found = [ToolDelta(0, "c", "f", '{"a":'), Finish("tool_calls")]
    status, body = whole(asked(), found)
    assert (status, body["status"], body["output"][0]["arguments"]) == (200, "completed", '{"a":')


@pytest.mark.parametrize(
    ("found", "status", "why"),
    [
        ([Content("x"), Finish("stop")], "completed", None),
        ([Content("x"), Finish("length")], "incomplete", "max_output_tokens"),
        ([Content("x"), Finish("content_filter")], "incomplete", "content_filter"),
        ([ToolDelta(0, "c", "f"), Finish("tool_calls")], "completed", None),
        ([ToolDelta(0, "c", "f", '{"x'), Finish("length")], "incomplete", "max_output_tokens"),
        ([Content("x")], "completed", None),
        ([], "completed", None),
    ],
)
def test_endings(found, status, why):
    last = stream(asked(), found)[-1]
    assert last["type"] == f"response.{status}"
    for body in (last["response"], whole(asked(), found)[1]):
        assert body["status"] == status
        assert (body["incomplete_details"] or {}).get("reason") == why
        assert body["output"]


def test_what_was_asked_is_said_back():
    schema = {"type": "object", "properties": {"é\u2028": {"type": "string"}}}
    chat = asked(
        instructions="Be kind.",
        input=[{"role": "developer", "content": "And short."}, {"role": "user", "content": "x"}],
        tools=[TOOL],
        tool_choice={"type": "function", "name": "look"},
        parallel_tool_calls=False,
        temperature=0.5,
        max_output_tokens=9,
        metadata={"a": "b"},
        user="me",
        reasoning={"effort": "high"},
        text={"format": {"type": "json_schema", "name": "n", "schema": schema}},
    )
    body = whole(chat, [Content("x"), Finish("stop")])[1]
    assert (
        body.items()
        >= {
            "object": "response",
            "model": "Org/Model-X",
            "instructions": "Be kind.",
            "tools": [TOOL],
            "tool_choice": {"type": "function", "name": "look"},
            "parallel_tool_calls": False,
            "temperature": 0.5,
            "max_output_tokens": 9,
            "metadata": {"a": "b"},
            "user": "me",
            "reasoning": {"effort": "high", "summary": None},
            "text": {"format": {"type": "json_schema", "name": "n", "strict": None, "schema": schema}},
            "store": False,
            "error": None,
        }.items()
    )


def test_a_body_of_many_lines_makes_no_stream_of_more():
    body = json.dumps({"model": "m", "input": "x", "tools": [TOOL], "metadata": {"a": "b"}}, indent=2)
    stream(responses.parse_chat(body.encode()), [Content("x"), Finish("stop")])


def test_thinking_is_sent_in_the_encrypted_field_too_where_asked_for():
    found = [Reasoning("hm"), Content("x"), Finish("stop")]
    assert "encrypted_content" not in whole(asked(), found)[1]["output"][0]
    chat = asked(include=["reasoning.encrypted_content"])
    item = whole(chat, found)[1]["output"][0]
    assert item["encrypted_content"] == "hm"
    again = asked(input=[{"role": "user", "content": "x"}, item, {"role": "assistant", "content": "y"}])
    assert again.messages[1].reasoning == "hm"


def test_thinking_that_is_not_to_be_seen_is_not():
    chat = asked(reasoning={"effort": "none"})
    found = [Logprobs(TOKENS), Reasoning("secret"), Content("x"), Finish("stop")]
    assert "secret" not in json.dumps(stream(chat, found))
    assert [item["type"] for item in whole(chat, found)[1]["output"]] == ["message"]


def test_a_failure_in_the_middle():
    told = stream(asked(), [Reasoning("hm"), Content("Hel")], FAILURE)
    last = told[-1]["response"]
    assert told[-1]["type"] == "response.failed"
    assert (last["status"], last["id"]) == ("failed", "resp_abc")
    assert last["error"] == {"code": "server_error", "message": "backend connection lost"}
    assert [item["type"] for item in last["output"]] == ["reasoning"]
    assert stream(asked(), [Content("x"), Finish("stop")], FAILURE)[-1]["type"] == "response.completed"
    assert [event["type"] for event in stream(asked(), [], FAILURE)] == [
        "response.created",
        "response.in_progress",
        "response.failed",
    ]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure("x", 429, "rate"), "rate_limit_exceeded"),
        (Failure("x", 400, ""), "invalid_prompt"),
        (Failure("x", 502), "server_error"),
        (Failure("x", 499, "cancelled"), "server_error"),
    ],
)
def test_codes_of_failures(failure, code):
    told = stream(asked(), [Content("x")], End("failed", failure))
    assert told[-1]["response"]["error"]["code"] == code


def test_a_prompt_that_is_too_long_keeps_the_code_that_makes_agents_shorten_it():
    answer = responses.Stream(asked(), id="abc", created=CREATED)
    data = answer.feed([Content("x")], CREATED)
    data += answer.end(End("failed", Failure("x", 400, "context_length_exceeded")), CREATED)
    assert b'"code":"context_length_exceeded"' in data


def test_a_failure_of_a_whole_answer_is_openais():
    status, body = whole(asked(), [Content("x")], FAILURE)
    assert status == 502
    assert body["error"]["message"] == "backend connection lost"


def test_a_heartbeat_is_a_comment():
    assert responses.Stream(asked(), id="a", created=CREATED).heartbeat(CREATED) == b": keep-alive\n\n"


@pytest.mark.parametrize("text", ["a\u2028b\u2029c\x85d", "温度 🌍 é", 'q"\\\n\r\t\0\x0b', "\ud800x"])
def test_texts_come_through(text):
    found = [Reasoning(text), Content(text), Finish("stop")]
    expected = text.replace("\ud800", "\ufffd")
    reasoning, message = whole(asked(), found)[1]["output"]
    assert (reasoning["summary"][0]["text"], message["content"][0]["text"]) == (expected, expected)
    assert [event["delta"] for event in stream(asked(), found) if "delta" in event] == [expected, expected]
