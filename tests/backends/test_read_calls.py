"""Tool calls, several answers at once, and what is told beside the words."""

from __future__ import annotations

from typing import Any

from buffer.job import Content, Event, Finish, Logprobs, ToolDelta, Usage
from tests.backends.streams import answer, play, reader
from tests.rig.script import DONE, chunk, encode, finish, tool, usage


def test_fragments_of_tool_calls() -> None:
    events = play(
        tool(0, call_id="c0", name="w"),
        tool(0, '{"ci'),
        tool(0, 'ty":"Tok'),
        tool(0, 'yo"}'),
        tool(2, call_id="c2", name="now"),
        tool(2, "{}"),
        finish("tool_calls"),
        DONE,
    )
    assert events == [
        ToolDelta(0, "c0", "w", ""),
        ToolDelta(0, arguments='{"ci'),
        ToolDelta(0, arguments='ty":"Tok'),
        ToolDelta(0, arguments='yo"}'),
        ToolDelta(1, "c2", "now", ""),
        ToolDelta(1, arguments="{}"),
        Finish("tool_calls"),
    ]


def test_several_calls_in_one_chunk() -> None:
    both = chunk({"content": "x", "tool_calls": [_entry(0, "a", "f", "{"), _entry(1, "b", "g", "{}")]})
    more = chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]})
    assert play(both, more, finish("tool_calls"), DONE) == [
        Content("x"),
        ToolDelta(0, "a", "f", "{"),
        ToolDelta(1, "b", "g", "{}"),
        ToolDelta(0, arguments="}"),
        Finish("tool_calls"),
    ]


def test_new_id_under_a_used_number_is_a_new_call() -> None:
    events = play(tool(0, "{}", call_id="a", name="f"), tool(0, "{}", call_id="b", name="g"), finish("stop"), DONE)
    assert events == [ToolDelta(0, "a", "f", "{}"), ToolDelta(1, "b", "g", "{}"), Finish("tool_calls")]


def test_call_without_id_gets_one_and_waits_for_its_name() -> None:
    unnamed = chunk({"tool_calls": [{"function": {"arguments": "{"}}]})
    named = chunk({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": {"a": 1}}}]})
    assert play(unnamed, named, finish(), DONE)[0] == ToolDelta(0, "call_new", "f", '{{"a":1}')


def test_only_the_first_call_where_one_is_wanted() -> None:
    one = reader(answer(one_call=True))
    events = play(
        tool(0, "{}", call_id="a", name="f"), tool(1, "{", call_id="b", name="g"), tool(1, "}"), finish(), of=one
    )
    assert events == [ToolDelta(0, "a", "f", "{}"), Finish("tool_calls")]


def test_several_answers_side_by_side() -> None:
    one = reader(answer(0), answer(1))
    first = play(
        chunk({"content": "a"}, index=0),
        chunk({"content": "b"}, index=1),
        chunk({}, "stop", index=0),
        chunk({"content": "c"}, index=1),
        chunk({"content": "?"}, index=5),
        chunk({}, "length", index=1),
        usage(7, 3),
        DONE,
        of=one,
    )
    assert first == [Content("a"), Content("b", 1), Finish("stop"), Content("c", 1), Finish("length", 1), Usage(7, 3)]


def test_one_of_several_answers_without_an_end() -> None:
    one = reader(answer(0), answer(1))
    assert play("a", finish(), DONE, of=one)[-1] == "failed: Back end 'b' ended the answer without a reason."


def test_stop_text_ends_the_answer_here() -> None:
    one = reader(answer(stops=["END"]))
    counted = chunk({"content": "one E"}, usage={"prompt_tokens": 3, "completion_tokens": 2})
    events: list[Event] = []
    for piece in (counted, chunk({"content": "ND two"})):
        events += one.feed(encode("openai", piece))
    assert events == [Content("one "), Finish("stop"), Usage(3, 2)]
    assert one.cut
    assert one.complete


def test_word_that_nobody_wants() -> None:
    assert play("x", finish("length"), usage(9, 1), DONE, of=reader(answer(mute=True))) == [
        Finish("length"),
        Usage(9, 1),
    ]


def test_logprobs_are_passed_on_as_they_are() -> None:
    told = chunk({"content": "x"})
    told["choices"][0]["logprobs"] = {"content": [{"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}]}
    none = chunk({"content": "y"})
    none["choices"][0]["logprobs"] = None
    events = play(told, none, finish(), DONE)
    assert events[1] == Logprobs('[{"token":"x","logprob":-0.5,"bytes":[120],"top_logprobs":[]}]')
    hidden = chunk({"reasoning": "secret"})
    hidden["choices"][0]["logprobs"] = told["choices"][0]["logprobs"]
    assert play(hidden, "a", finish(), DONE, of=reader(answer(mode="drop"))) == [Content("a"), Finish("stop")]


def test_times_of_vllm() -> None:
    counted = usage(7, 1) | {"metrics": {"time_to_first_token_ms": 12.5, "generation_time_ms": 3}}
    assert play("x", finish(), counted, DONE)[-1] == Usage(7, 1, prompt_ns=12_500_000, completion_ns=3_000_000)


def test_counts_of_llama_cpp_without_usage() -> None:
    timings = {"cache_n": 4, "prompt_n": 3, "prompt_ms": 1.5, "predicted_n": 2, "predicted_ms": 0.5}
    expected = Usage(7, 2, cached=4, prompt_ns=1_500_000, completion_ns=500_000)
    assert play("x", finish() | {"timings": timings}, DONE)[-1] == expected


def _entry(index: int, call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
