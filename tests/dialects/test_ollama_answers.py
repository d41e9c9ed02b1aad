import json

import pytest
from ollama._types import ChatResponse

from buffer.job import Content, End, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage
from gateway.dialects import ollama
from tests.dialects.events import CALLS, ID, TOKENS, chat, ndjson, stream, whole


def asked(**fields):
    return chat(front="ollama", **fields)


def lines(events, end=None, chat=None, **more):
    found = ndjson(stream(ollama, chat or asked(), events, end, **more))
    for line in found:
        if "error" not in line:
            ChatResponse.model_validate(line)
    return found


def test_the_order_of_a_stream():
    events = [
        Origin("b1"),
        Reasoning("hm"),
        Content("Hi"),
        *CALLS,
        Usage(7, 3, prompt_ns=5, completion_ns=9, load_ns=100),
    ]
    found = lines(events)
    assert all(line["model"] == "Org/Model-X" for line in found)
    assert [line["created_at"] for line in found] == [
        "2026-11-30T00:53:21.250000Z",
        "2026-11-30T00:53:21.250000Z",
        "2026-11-30T00:53:22.250000Z",
        "2026-11-30T00:53:22.250000Z",
    ]
    assert [(line["message"], line["done"]) for line in found] == [
        ({"role": "assistant", "content": "", "thinking": "hm"}, False),
        ({"role": "assistant", "content": "Hi"}, False),
        (
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c0", "function": {"index": 0, "name": "w", "arguments": {"city": "Tokyo"}}},
                    {"id": "c2", "function": {"index": 1, "name": "now", "arguments": {}}},
                ],
            },
            False,
        ),
        ({"role": "assistant", "content": ""}, True),
    ]
    assert {name: value for name, value in found[-1].items() if name not in {"model", "created_at", "message"}} == {
        "done": True,
        "done_reason": "stop",
        "total_duration": 2_000_000_000,
        "load_duration": 500_000_100,
        "prompt_eval_count": 7,
        "prompt_eval_duration": 5,
        "eval_count": 3,
        "eval_duration": 9,
    }


def test_figures_by_the_clock_where_the_engine_tells_none():
    answer = ollama.Stream(asked(), id=ID, created=100.0)
    answer.feed([Content("a")], 101.0)
    answer.feed([Content("b")], 101.25)
    answer.feed([Content("c")], 102.5)
    answer.feed([Finish("stop")], 103.0)
    (line,) = ndjson(answer.end(End("done"), 104.0, queued_s=0.75))
    figures = {name: line[name] for name in line if name.endswith(("count", "duration"))}
    assert figures == {
        "total_duration": 4_000_000_000,
        "load_duration": 750_000_000,
        "prompt_eval_count": 0,
        "prompt_eval_duration": 250_000_000,
        "eval_count": 3,
        "eval_duration": 1_500_000_000,
    }
    assert all(type(value) is int for value in figures.values())


def test_the_wait_is_no_part_larger_than_the_whole():
    """It comes from the store's clock, which may be a moment ahead of the gateway's."""
    answer = ollama.Stream(asked(), id=ID, created=100.0)
    answer.feed([Content("a")], 100.25)
    answer.feed([Finish("stop")], 100.5)
    (line,) = ndjson(answer.end(End("done"), 100.5, queued_s=0.75))
    assert (line["load_duration"], line["total_duration"]) == (250_000_000, 500_000_000)
    assert line["prompt_eval_duration"] == 0


def test_a_clock_that_stands_still_gives_no_zero_to_divide_by():
    line = lines([Content("a"), Finish("stop"), Usage(1, 1)])[-1]
    assert line["eval_duration"] == 1


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([Content("x"), Finish("stop")], "stop"),
        ([Content("x"), Finish("length")], "length"),
        ([Content("x"), Finish("content_filter")], "stop"),
        (CALLS, "stop"),
        ([Content("x")], "stop"),
        ([], "stop"),
    ],
)
def test_reasons(events, reason):
    found = lines(events)
    assert [line["done"] for line in found] == [False] * (len(found) - 1) + [True]
    assert found[-1]["done_reason"] == reason
    assert whole(ollama, asked(), events)[1]["done_reason"] == reason


def test_a_call_that_was_cut_off_is_left_out():
    events = [ToolDelta(0, "a", "f", "{}"), ToolDelta(1, "b", "g", '{"x":'), Finish("length")]
    found = lines(events)
    assert [call["function"]["name"] for call in found[0]["message"]["tool_calls"]] == ["f"]
    assert found[-1]["done_reason"] == "length"
    _, body = whole(ollama, asked(), events)
    assert [call["function"]["name"] for call in body["message"]["tool_calls"]] == ["f"]


@pytest.mark.parametrize("arguments", ['{"x":', "[1]", "5", "not json", "[" * 5000])
def test_a_call_that_is_no_object_is_a_failure(arguments):
    events = [ToolDelta(0, "a", "f", arguments), Finish("tool_calls")]
    (line,) = lines(events)
    assert isinstance(line["error"], str)
    status, body = whole(ollama, asked(), events)
    assert (status, list(body)) == (502, ["error"])


def test_arguments_keep_their_order_and_stay_in_one_line():
    events = [ToolDelta(0, "a", "f", '{\n "z": 1.50,\r\n "a": "x\u2028y"\n}'), Finish("stop")]
    data = stream(ollama, asked(), events)
    assert b'"arguments":{"z":1.50,"a":"x\\u2028y"}' in data
    assert ndjson(data)[0]["message"]["tool_calls"][0]["function"]["arguments"] == {"z": 1.5, "a": "x\u2028y"}


def test_only_one_call_where_the_client_wants_no_more():
    found = lines(CALLS, chat=asked(parallel_tool_calls=False))
    assert len(found[0]["message"]["tool_calls"]) == 1


@pytest.mark.parametrize("quiet", [asked(think="off"), asked(show_reasoning=False), asked(think="off", logprobs=True)])
def test_thinking_that_is_not_to_be_seen_is_not(quiet):
    events = [Reasoning("secret"), Logprobs(TOKENS), Content("x"), Finish("stop")]
    data = stream(ollama, quiet, events)
    assert b"secret" not in data
    assert b"thinking" not in data
    assert b'"token"' not in data
    assert whole(ollama, quiet, events)[1]["message"] == {"role": "assistant", "content": "x"}


def test_no_tokens_asked_for_none_sent():
    mute = asked(max_tokens=0)
    events = [Reasoning("a"), Content("b"), Finish("length"), Usage(9, 1)]
    (line,) = lines(events, chat=mute)
    assert (line["message"], line["done_reason"]) == ({"role": "assistant", "content": ""}, "length")
    assert whole(ollama, mute, events)[1]["message"] == {"role": "assistant", "content": ""}


def test_logprobs():
    with_them = asked(logprobs=True)
    events = [Content("a"), Logprobs(TOKENS), Content("b"), Logprobs(TOKENS), Finish("stop")]
    assert [line["logprobs"] for line in lines(events, chat=with_them) if "logprobs" in line] == [
        json.loads(TOKENS)
    ] * 2
    assert whole(ollama, with_them, events)[1]["logprobs"] == json.loads(TOKENS) * 2
    assert b"logprobs" not in stream(ollama, asked(), events)


@pytest.mark.parametrize(
    "text", ["a\u2028b\u2029c\x85d", "温度 🌍 é", 'q"\\\n\r\t\0\x0b\x0c\x1c', "\ud800x", "a" * 100_000]
)
def test_texts_come_through(text):
    expected = text.replace("\ud800", "\ufffd")
    found = lines([Reasoning(text), Content(text), Finish("stop")])
    assert found[0]["message"]["thinking"] == expected
    assert found[1]["message"]["content"] == expected
