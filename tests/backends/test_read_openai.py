from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.job import Content, Finish, Origin, Reasoning, ToolDelta, Usage
from tests.backends.streams import NAMES, answer, cuts, play, read, reader, recorded, said, thought
from tests.rig.script import DONE, chunk, encode, finish, reasoning, role, usage


@pytest.mark.parametrize("name", NAMES)
@given(places=st.lists(st.integers(0, 20_000), max_size=30))
def test_any_cut_of_a_recorded_stream_gives_the_same_events(name: str, places: list[int]) -> None:
    data = recorded(name)
    assert read(reader(), cuts(data, places)) == read(reader(), [data])


@pytest.mark.parametrize("name", NAMES)
def test_byte_by_byte(name: str) -> None:
    data = recorded(name)
    assert read(reader(), [data[i : i + 1] for i in range(len(data))]) == read(reader(), [data])


def test_llama_cpp_thinking() -> None:
    events = read(reader(), [recorded("llama_thinking_stream.sse")])
    assert events[0] == Origin("b0-unknown")
    assert thought(events).startswith("Let me think about this.")
    assert said(events).endswith("gateway.")
    assert events[-2:] == [
        Finish("stop"),
        Usage(15, 76, cached=0, prompt_ns=929_000, completion_ns=10_919_000),
    ]


def test_vllm_thinking_loses_the_line_breaks_between_its_tags() -> None:
    events = read(reader(), [recorded("vllm_thinking_stream.sse")])
    assert thought(events).startswith("Let")
    assert said(events)[0].isalpha()
    assert said(events).endswith("sailor.")
    assert events[-2:] == [Finish("stop"), Usage(15, 60, reasoning=31)]


@pytest.mark.parametrize(
    ("name", "last", "error"),
    [
        ("vllm_sigterm_midstream.sse", " counts", "failed: Back end 'b' aborted the answer."),
        (
            "vllm_enginecore_killed_midstream.sse",
            " the",
            "failed: Back end 'b' broke off with an error: EngineCore encountered an issue. "
            "See stack trace (above) for the root cause.",
        ),
        (
            "llama_killed_midstream_tail.sse",
            "The",
            "failed: Back end 'b' closed the connection before the answer was complete.",
        ),
    ],
)
def test_engine_that_dies_is_no_end(name: str, last: str, error: str) -> None:
    whole = recorded(name)
    pieces = whole.splitlines(keepends=True)
    events = read(reader(), pieces)
    assert events[-1] == error
    assert not any(isinstance(event, Finish) for event in events)
    spoken = [event for event in events if isinstance(event, Content)]
    assert spoken[-1].text == last


def test_role_alone_says_nothing() -> None:
    one = reader()
    assert one.feed(encode("openai", role())) == []
    assert not one.lively


def test_end_without_done_mark() -> None:
    assert play(role(), "Hi", finish()) == [Content("Hi"), Finish("stop")]


def test_done_mark_without_an_end() -> None:
    assert play(role(), "Hi", DONE) == [Content("Hi"), "failed: Back end 'b' ended the answer without a reason."]


def test_bytes_end_without_an_end() -> None:
    assert play(role())[-1] == "failed: Back end 'b' closed the connection before the answer was complete."
    assert play()[-1] == "failed: Back end 'b' closed the connection before the answer was complete."


def test_last_event_may_lack_its_blank_line() -> None:
    assert play("Hi", encode("openai", finish()).rstrip(b"\n")) == [Content("Hi"), Finish("stop")]


def test_last_line_cut_short_is_an_early_end() -> None:
    assert play("Hi", b'data: {"choices":[{"ind')[-1] == (
        "failed: Back end 'b' closed the connection before the answer was complete."
    )


def test_chunks_without_choices() -> None:
    events = play({"choices": []}, role(), "ok", {"id": "x"}, {"choices": None}, finish(), usage(7, 1), DONE)
    assert events == [Content("ok"), Finish("stop"), Usage(7, 1)]


def test_counts_on_every_chunk_are_told_once_at_the_end() -> None:
    counts = [{"prompt_tokens": 7, "completion_tokens": n} for n in range(2)]
    counted = [chunk({"content": text}, usage=count) for text, count in zip("ab", counts, strict=True)]
    assert play(*counted, finish(), usage(7, 2), DONE) == [Content("a"), Content("b"), Finish("stop"), Usage(7, 2)]


def test_text_in_the_chunk_that_ends() -> None:
    assert play(chunk({"content": "all"}, "length"), DONE) == [Content("all"), Finish("length")]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "content_filter"), ("repetition", "stop")],
)
def test_reasons(reason: str, expected: str) -> None:
    assert play("x", finish(reason), DONE)[-1] == Finish(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_reasons_that_are_none(reason: str) -> None:
    assert play("x", finish(reason), DONE)[-1] == "failed: Back end 'b' aborted the answer."


def test_tags_over_several_pieces() -> None:
    events = play("<th", "ink>\nlet me", " see</thi", "nk>\n\nPa", "ris", finish(), DONE)
    assert (thought(events), said(events)) == ("let me see", "Paris")
    events = play("a <", " b, <thanks> and <thi", finish(), DONE)
    assert events == [Content("a <"), Content(" b, <thanks> and <thi"), Finish("stop")]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_thinking_in_a_field_of_its_own(name: str) -> None:
    one = reader()
    events = play(reasoning("\nA", name), reasoning("B", name), "\n\nfine <think>", finish(), DONE, of=one)
    assert events == [Reasoning("A"), Reasoning("B"), Content("fine <think>"), Finish("stop")]
    assert one.parsed


def test_both_names_of_thinking_count_once() -> None:
    both = chunk({"reasoning": "A", "reasoning_content": "A"})
    assert thought(play(both, finish(), DONE)) == "A"


def test_unwanted_thinking_is_left_out() -> None:
    events = play(reasoning("A"), "<think>", "B</think>C", finish(), DONE, of=reader(answer(mode="hold")))
    assert said(events) == "<think>B</think>C"  # The engine parses: what it calls content is content.
    events = play("<think>B</think>C", finish(), DONE, of=reader(answer(mode="hold")))
    assert events == [Content("C"), Finish("stop")]
    events = play(reasoning("A"), "C", finish(), DONE, of=reader(answer(mode="drop")))
    assert events == [Content("C"), Finish("stop")]


def test_answer_that_was_taken_for_thinking() -> None:
    trap = (reasoning("The whole"), reasoning(" answer"))
    assert said(play(*trap, finish(), DONE, of=reader(answer(mode="hold")))) == "The whole answer"
    assert said(play(*trap, finish("length"), DONE, of=reader(answer(mode="hold")))) == ""
    assert said(play(*trap, finish(), DONE, of=reader(answer(mode="drop")))) == ""
    assert play(*trap, finish(), DONE, of=reader(answer(mode="answer"))) == [
        Content("The whole"),
        Content(" answer"),
        Finish("stop"),
    ]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": {"message": "boom", "code": 500}}, "failed"),
        ({"error": "boom"}, "failed"),
        ({"object": "error", "message": "boom", "code": 500}, "failed"),
        ({"error": {"message": "boom", "code": 400}}, "client"),
    ],
)
def test_errors_in_a_stream(error: dict[str, Any], kind: str) -> None:
    last = play(role(), error, DONE)[-1]
    assert isinstance(last, str)
    assert last.startswith(kind)
    assert "boom" in last
    assert play("x", {"error": None}, finish(), DONE)[-1] == Finish("stop")


def test_error_after_the_end_costs_nothing() -> None:
    assert play("x", finish(), {"error": {"message": "late"}}) == [Content("x"), Finish("stop")]


@pytest.mark.parametrize("text", ["a\u2028b\u2029c\u0085d", "温度 🌍 é"])
def test_characters_that_others_split_on(text: str) -> None:
    assert said(play(text, finish(), DONE)) == text


def test_half_characters_do_no_harm() -> None:
    assert said(play(b'data: {"choices":[{"delta":{"content":"a\\ud83cb"}}]}\n\n', finish(), DONE)) == "a\ufffdb"
    assert said(play(b'data: {"choices":[{"delta":{"content":"\\ud83c\\udf0d"}}]}\n\n', finish(), DONE)) == "🌍"
    assert said(play(b'data: {"choices":[{"delta":{"content":"a\xf0\x9f"}}]}\n\n', finish(), DONE)) == "a\ufffd"


def test_what_is_no_json() -> None:
    assert play(b"data: hello\n\n") == ["failed: Back end 'b' sent something that is no JSON."]


def test_events_without_blank_lines_between_them() -> None:
    joined = encode("openai", "a").rstrip(b"\n") + b"\n" + encode("openai", finish()) + DONE
    assert play(joined) == [Content("a"), Finish("stop")]


def test_content_in_parts() -> None:
    parts = chunk({"content": [{"type": "text", "text": "a"}, {"type": "other"}, {"type": "text", "text": "b"}]})
    assert said(play(parts, finish(), DONE)) == "ab"


def test_whole_answer() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "reasoning": "Hm",
        "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = encode("openai", usage(7, 3) | {"choices": [choice], "system_fingerprint": "fp"})[len(b"data: ") :]
    assert reader().whole(body) == [
        Origin("fp"),
        Reasoning("Hm"),
        Content("Hi"),
        ToolDelta(0, "a", "f", "{}"),
        ToolDelta(1, "b", "g", "{}"),
        Finish("tool_calls"),
        Usage(7, 3),
    ]


@pytest.mark.parametrize("body", [b'{"error":"gone"}', b"{}", b"[1]", b"", b'{"choices":[]}'])
def test_whole_answer_that_is_none(body: bytes) -> None:
    one = reader()
    assert one.whole(body) == []
    assert one.failure is not None
    assert one.failure.kind == "failed"
