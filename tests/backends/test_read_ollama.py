from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.answer import Answer
from backends.read_ollama import OllamaReader
from buffer.job import Content, Event, Finish, Logprobs, Reasoning, ToolDelta, Usage
from tests.backends.streams import answer, cuts, read, said, thought
from tests.rig.script import done, encode, line

COUNTS = Usage(7, 1, prompt_ns=3_000_000, completion_ns=5_000_000, load_ns=1_000_000)


def play(*pieces: bytes | str | dict[str, Any], of: Answer | None = None) -> list[Event | str]:
    return read(OllamaReader("b", of or answer()), [encode("ollama", piece) for piece in pieces])


def call(name: str, arguments: Any, call_id: str = "") -> dict[str, Any]:
    function = {"function": {"index": 0, "name": name, "arguments": arguments}}
    return function | ({"id": call_id} if call_id else {})


def test_thinking_content_and_counts() -> None:
    events = play(line(thinking="\nA"), line(thinking="B"), "x", "y", done())
    assert events == [Reasoning("A"), Reasoning("B"), Content("x"), Content("y"), Finish("stop"), COUNTS]


def test_thinking_and_content_on_one_line() -> None:
    assert play(line("x", thinking="A"), done())[:2] == [Reasoning("A"), Content("x")]


def test_tags_left_in_by_older_servers() -> None:
    events = play("<think>\nA", "</think>\n\nB", done())
    assert (thought(events), said(events)) == ("A", "B")


def test_calls_come_whole_over_several_lines_all_numbered_zero() -> None:
    first = line()
    first["message"]["tool_calls"] = [call("f", {"b": 1, "a": {"z": [2]}}, "id1"), call("g", {})]
    last = done()
    last["message"]["tool_calls"] = [call("h", '{"c":1}')]
    assert play(first, last) == [
        ToolDelta(0, "id1", "f", '{"b":1,"a":{"z":[2]}}'),
        ToolDelta(1, "call_new", "g", "{}"),
        ToolDelta(2, "call_new", "h", '{"c":1}'),
        Finish("tool_calls"),
        COUNTS,
    ]


def test_content_on_the_last_line() -> None:
    last = done("length")
    last["message"]["content"] = "end"
    assert play(last) == [Content("end"), Finish("length"), COUNTS]


@pytest.mark.parametrize("reason", ["load", "unload", "stop"])
def test_other_ends_are_ends(reason: str) -> None:
    assert play("x", done(reason))[1] == Finish("stop")


def test_end_without_reason_and_counts_is_none() -> None:
    assert play("x", {"done": True, "message": {"content": ""}}) == [
        Content("x"),
        "failed: Back end 'b' ended the answer without a reason.",
    ]
    assert play("x", {"done": True, "eval_count": 3})[-1] == Usage(0, 3)


@pytest.mark.parametrize("error", ["boom", {"message": "boom"}])
def test_error_line(error: Any) -> None:
    assert play("x", {"error": error}) == [Content("x"), "failed: Back end 'b' broke off with an error: boom"]


def test_early_end() -> None:
    for pieces in ((), ("x",), ("x", b'{"message":{"con')):
        assert play(*pieces)[-1] == "failed: Back end 'b' closed the connection before the answer was complete."


def test_last_line_without_line_end() -> None:
    assert play("x", encode("ollama", done()).rstrip()) == [Content("x"), Finish("stop"), COUNTS]


def test_what_is_no_json() -> None:
    assert play(b"<html>\n") == ["failed: Back end 'b' sent something that is no JSON."]


def test_unwanted_thinking() -> None:
    assert said(play(line(thinking="A"), "x", done(), of=answer(mode="hold"))) == "x"
    assert thought(play(line(thinking="A"), "x", done(), of=answer(mode="hold"))) == ""


def test_logprobs() -> None:
    assert play(line("x", logprobs=[{"token": "x", "logprob": -1}]), done())[1] == Logprobs(
        '[{"token":"x","logprob":-1}]'
    )


@given(places=st.lists(st.integers(0, 5_000), max_size=20))
def test_any_cut_gives_the_same_events(places: list[int]) -> None:
    first = line("温度 🌍 é\u2028", thinking="é")
    first["message"]["tool_calls"] = [call("f", {"ключ": "🌍"})]
    data = b"".join(encode("ollama", piece) for piece in (line(thinking="a"), first, "\u0085x\r", done()))
    whole = read(OllamaReader("b", answer()), [data])
    assert read(OllamaReader("b", answer()), cuts(data, places)) == whole
    assert read(OllamaReader("b", answer()), [data[i : i + 1] for i in range(len(data))]) == whole
