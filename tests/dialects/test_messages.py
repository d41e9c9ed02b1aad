import base64
import json
import time

import pytest

from gateway.dialects import ollama, openai
from gateway.dialects.errors import BadRequest

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(30)).decode()


def from_openai(*messages, allow=False):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return openai.parse_chat(body, allow_image_urls=allow).messages


def from_ollama(*messages, allow=False):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return ollama.parse_chat(body, allow_image_urls=allow).messages


def call(name, arguments, **more):
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


@pytest.mark.parametrize("assistant", [{"content": None}, {}, {"content": ""}])
@pytest.mark.parametrize("content", ["rain", None])
def test_a_tool_chain_of_openai(assistant, content):
    messages = from_openai(
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "tool_calls": [call("w", '{"city": "Oslo"}')], **assistant},
        {"role": "tool", "tool_call_id": "c1", "content": content},
    )
    assert [message.role for message in messages] == ["user", "assistant", "tool"]
    assert messages[1].content == ""
    (found,) = messages[1].tool_calls
    assert (found.id, found.name, found.arguments) == ("c1", "w", '{"city":"Oslo"}')
    assert (messages[2].tool_call_id, messages[2].tool_name, messages[2].content) == ("c1", "w", content or "")


def test_a_history_that_lost_its_ids():
    messages = from_ollama(
        {"role": "user", "content": "time?"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "now", "arguments": {}}}]},
        {"role": "tool", "tool_name": "now", "content": "08:00"},
    )
    assert messages[1].tool_calls[0].id == messages[2].tool_call_id == "call_1_0"
    assert messages[1].tool_calls[0].arguments == "{}"


def test_results_are_tied_by_name_then_by_place():
    calls = [{"function": {"name": name, "arguments": {}}} for name in ("a", "b", "a", "c")]
    results = [{"role": "tool", "tool_name": name, "content": "x"} for name in ("b", "a", "a")]
    messages = from_ollama(
        {"role": "assistant", "content": "", "tool_calls": calls},
        *results,
        {"role": "tool", "content": "x"},
        {"role": "tool", "content": "x"},
    )
    ids = [message.tool_call_id for message in messages[1:]]
    assert ids == ["call_0_1", "call_0_0", "call_0_2", "call_0_3", "call_orphan_0"]
    assert [message.tool_name for message in messages[1:]] == ["b", "a", "a", "c", ""]


def test_the_nearest_turn_is_answered_and_a_known_id_finds_an_older_one():
    messages = from_ollama(
        {"role": "assistant", "tool_calls": [{"id": "old", "function": {"name": "a", "arguments": {}}}]},
        {"role": "assistant", "tool_calls": [{"id": "new", "function": {"name": "a", "arguments": {}}}]},
        {"role": "tool", "tool_name": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "old", "content": "y"},
    )
    assert [message.tool_call_id for message in messages[2:]] == ["new", "old"]


def test_an_unknown_id_that_answers_nothing_is_kept():
    assert from_openai({"role": "tool", "tool_call_id": "zz", "content": "x"})[0].tool_call_id == "zz"


def test_calls_are_sorted_by_index_wherever_it_stands():
    outside = [
        {"index": 1, "function": {"name": "b", "arguments": {}}},
        {"index": 0, "function": {"name": "a", "arguments": {}}},
    ]
    inside = [
        {"function": {"index": 1, "name": "b", "arguments": {}}},
        {"function": {"index": 0, "name": "a", "arguments": {}}},
    ]
    partly = [{"index": 1, "function": {"name": "b", "arguments": {}}}, {"function": {"name": "a", "arguments": {}}}]
    for calls, names in ((outside, ["a", "b"]), (inside, ["a", "b"]), (partly, ["b", "a"])):
        (message,) = from_ollama({"role": "assistant", "tool_calls": calls})
        assert [one.name for one in message.tool_calls] == names


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"z": 1, "a": [2.50, None]}, '{"z":1,"a":[2.5,null]}'),
        ('{"z": 1,\n "a": 2}', '{"z":1,"a":2}'),
        ("", "{}"),
        (None, "{}"),
        ("null", "{}"),
        ({}, "{}"),
        ({"t": "a\u2028b"}, '{"t":"a\\u2028b"}'),
    ],
)
@pytest.mark.parametrize("parse", [from_openai, from_ollama])
def test_arguments(parse, arguments, text):
    (message,) = parse({"role": "assistant", "content": "", "tool_calls": [call("w", arguments)]})
    assert message.tool_calls[0].arguments == text


@pytest.mark.parametrize("arguments", ["not json", "[1]", "5", 5, [1], '{"a":'])
@pytest.mark.parametrize("parse", [from_openai, from_ollama])
def test_arguments_that_are_no_object(parse, arguments):
    with pytest.raises(BadRequest, match="invalid tool call arguments"):
        parse({"role": "assistant", "content": "", "tool_calls": [call("w", arguments)]})


def test_the_function_calls_of_old():
    messages = from_openai(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    )
    assert messages[0].tool_calls[0].id == messages[1].tool_call_id == "call_0_0"
    assert messages[1].role == "tool"


def test_developer_is_system_and_late_system_messages_stay():
    messages = from_openai(
        {"role": "developer", "content": "a"},
        {"role": "user", "content": "b", "name": "Ann"},
        {"role": "system", "content": "c"},
    )
    assert [(message.role, message.content) for message in messages] == [
        ("system", "a"),
        ("user", "b"),
        ("system", "c"),
    ]
    assert messages[1].name == "Ann"


def test_ollama_roles_are_lowered_and_pass():
    assert [m.role for m in from_ollama({"role": "USER", "content": "x"}, {"role": "control", "content": "y"})] == [
        "user",
        "control",
    ]


def test_earlier_thinking_is_kept():
    assert from_ollama({"role": "assistant", "content": "x", "thinking": "t"})[0].reasoning == "t"
    assert from_openai({"role": "assistant", "content": "x", "reasoning_content": "t"})[0].reasoning == "t"
    both = {"role": "assistant", "content": "x", "reasoning": "new", "reasoning_content": "old"}
    assert from_openai(both)[0].reasoning == "new"


def test_missing_content_in_ollama_is_empty():
    assert [m.content for m in from_ollama({"role": "user"}, {"role": "user", "content": None})] == ["", ""]


def test_parts_of_text_are_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert from_openai({"role": "user", "content": parts})[0].content == "a\nb"
    assert from_openai({"role": "user", "content": []})[0].content == ""


def test_many_results_without_ids_cost_no_more_than_few():
    calls = [{"function": {"name": f"f{number % 7}"}} for number in range(20_000)]
    results = [{"role": "tool", "content": "", "tool_name": "f3"}] * 20_000
    body = {"model": "m", "messages": [{"role": "assistant", "tool_calls": calls}, *results]}
    began_at = time.perf_counter()
    messages = ollama.parse_chat(json.dumps(body).encode()).messages
    assert time.perf_counter() - began_at < 2
    assert len({message.tool_call_id for message in messages[1:]}) == 20_000
    assert [message.tool_call_id for message in messages[1:3]] == ["call_0_3", "call_0_10"]
