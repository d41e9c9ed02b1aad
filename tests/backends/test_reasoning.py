from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.reasoning import Splitter, held_suffix


def split(pieces: list[str], *, inside: bool = False) -> tuple[str, str]:
    """Thinking and answer, joined. Checks that no part is empty and that thinking comes before the answer."""
    splitter = Splitter(inside=inside)
    parts = [part for piece in pieces for part in splitter.feed(piece)] + splitter.flush()
    assert all(part.text for part in parts)
    kinds = [part.thinking for part in parts]
    assert kinds == sorted(kinds, reverse=True)
    return (
        "".join(part.text for part in parts if part.thinking),
        "".join(part.text for part in parts if not part.thinking),
    )


CASES = [
    ("<think>\nA\n</think>\n\nB", ("A", "B")),
    ("<think>\n\n</think>\n\nHi", ("", "Hi")),
    ("<think></think>Hi", ("", "Hi")),
    ("  \n<think>A</think>B", ("A", "B")),
    ("<b>x", ("", "<b>x")),
    ("  plain, with <think> later </think>", ("", "  plain, with <think> later </think>")),
    ("a < b, <thanks> and <thi", ("", "a < b, <thanks> and <thi")),
    ("<thi", ("", "<thi")),
    ("   ", ("", "   ")),
    ("<think>never closed </thi", ("never closed </thi", "")),
    ("<think>\n", ("", "")),
    ("<think><think>\nA</think>B", ("A", "B")),
    ("<think>A </b> </ think> < /think></think>\n B </think> C", ("A </b> </ think> < /think>", "B </think> C")),
    ("<think>A\n<tool_call>{}</tool_call>", ("A", "<tool_call>{}</tool_call>")),
    ("<think>A\n \n</think>\n<think>B</think>", ("A", "<think>B</think>")),
    ("<think>A <tool_box> B</think>C", ("A <tool_box> B", "C")),
    ("<think>  A  B  </think>C", ("A  B", "C")),
]
INSIDE = [
    ("A\n</think>\n\nB", ("A", "B")),
    ("\n</think>\n\nB", ("", "B")),
    ("<think>\nA</think>B", ("A", "B")),
    ("all of it", ("all of it", "")),
    ("A<tool_call>x", ("A", "<tool_call>x")),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_tags_are_taken_out(text: str, expected: tuple[str, str]) -> None:
    assert split([text]) == expected


@pytest.mark.parametrize(("text", "expected"), INSIDE)
def test_prompt_that_opens_the_thinking(text: str, expected: tuple[str, str]) -> None:
    assert split([text], inside=True) == expected


@pytest.mark.parametrize(
    ("text", "inside"), [(text, False) for text, _ in CASES] + [(text, True) for text, _ in CASES + INSIDE]
)
def test_every_cut_in_three_and_letter_by_letter(text: str, inside: bool) -> None:
    whole = split([text], inside=inside)
    assert split(list(text), inside=inside) == whole
    for a in range(len(text) + 1):
        for b in range(a, len(text) + 1):
            assert split([text[:a], text[a:b], text[b:]], inside=inside) == whole


@given(
    pieces=st.lists(st.sampled_from(["<think>", "</think>", "<tool_call>", "<th", "ink>", "</", " ", "\n", "x", "é"])),
    places=st.lists(st.integers(0, 60), max_size=6),
    inside=st.booleans(),
)
def test_any_cut_of_any_text_gives_the_same(pieces: list[str], places: list[int], inside: bool) -> None:
    text = "".join(pieces)
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    assert split([text[a:b] for a, b in itertools.pairwise(edges)], inside=inside) == split([text], inside=inside)


def test_what_is_no_beginning_of_a_tag_is_not_kept_waiting() -> None:
    splitter = Splitter()
    assert [part.text for part in splitter.feed("<b>x")] == ["<b>x"]
    splitter = Splitter()
    assert splitter.feed("<t") == []
    assert [part.text for part in splitter.feed("able>")] == ["<table>"]


def test_other_tags() -> None:
    splitter = Splitter("[THINK]", "[/THINK]")
    assert [tuple(part) for part in splitter.feed("[THINK]a[/THINK]b")] == [(True, "a"), (False, "b")]


def test_held_suffix_is_the_longest() -> None:
    assert held_suffix("ab</th", "</think>", "<tool_call>") == 4
    assert held_suffix("aba", "abab") == 3
    assert held_suffix("abab", "abab") == 2
    assert held_suffix("xyz", "abab") == 0
