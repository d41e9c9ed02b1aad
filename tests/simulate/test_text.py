from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulate.instance import instance_of
from simulate.plan import Wish, plan_answer
from simulate.prompt import PromptError, raw, render
from simulate.text import answer, count_tokens, mark_of, thinking


@given(st.lists(st.integers(0, 400), min_size=1, max_size=12))
def test_pieces_join_to_the_text(cuts: list[int]) -> None:
    for text in (answer("m", "rtx4090-vllm"), thinking("m")):
        edges = sorted({0, 400, *cuts})
        pieces = [text.span(start, stop) for start, stop in pairwise(edges)]
        assert "".join(pieces) == text.span(0, 400)


def test_an_answer_says_what_it_is() -> None:
    words = answer(mark_of("hello"), "h100-vllm").span(0, 300)
    assert words.startswith(f"This answer is simulated [{mark_of('hello')}]")
    assert "Line 12 of it says nothing" in words
    assert 3.5 < len(words) / 300 < 5
    assert thinking("m").span(0, 3).startswith("Simulated")


def test_the_same_prompt_has_the_same_answer_and_another_another() -> None:
    wish = Wish("hello", "p", thinks=True)
    assert plan_answer(wish).span(0, 500) == plan_answer(wish).span(0, 500)
    assert plan_answer(wish).mark != plan_answer(wish, 1).mark != plan_answer(Wish("hello!", "p", thinks=True)).mark


def test_lengths_and_their_reasons() -> None:
    def plan(**more: object) -> tuple[int, str]:
        planned = plan_answer(Wish("hello", "p", thinks=False, **more))  # type: ignore[arg-type]
        return planned.tokens, planned.finish

    natural = plan()[0]
    assert 48 <= natural <= 240
    assert plan(max_tokens=10_000) == (natural, "stop")
    assert plan(max_tokens=7) == (7, "length")
    assert plan(natural_tokens=500) == (500, "stop")
    assert plan(natural_tokens=500, max_tokens=200) == (200, "length")
    assert plan(ignore_eos=True, max_tokens=900) == (900, "length")
    assert plan_answer(Wish("hello", "p", thinks=False, natural_tokens=500), room=30).tokens == 30


def test_thinking_comes_first_and_may_be_all_there_is() -> None:
    plan = plan_answer(Wish("hello", "p", thinks=True, natural_tokens=300))
    assert plan.thinking_tokens == 100
    thought, said = plan.span(90, 110)
    assert thought
    assert said.startswith("This answer is simulated")
    cut = plan_answer(Wish("hello", "p", thinks=True, max_tokens=5))
    assert cut.span(0, 5)[1] == ""
    assert cut.finish == "length"


@given(st.sampled_from(["one word", "simulated", " ", "Line 3 of", "x, n", "nowhere to be found"]), st.integers(1, 40))
def test_a_stop_string_ends_the_text_before_it(stop: str, stride: int) -> None:
    wish = Wish("hello", "p", thinks=True, natural_tokens=240)
    full = plan_answer(wish).span(0, 240)[1]
    plan = plan_answer(Wish("hello", "p", thinks=True, natural_tokens=240, stop=("never", stop)))
    said = "".join(plan.span(start, min(start + stride, plan.tokens))[1] for start in range(0, plan.tokens, stride))
    assert said == full.split(stop)[0]
    assert plan.stop_reason == (stop if stop in full else None)
    assert plan.finish == "stop"


def test_prompts_that_begin_alike_share_their_blocks() -> None:
    first = {"role": "user", "content": "word " * 200}
    one = render([first])
    two = render([first, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "more"}])
    assert one.tokens == count_tokens(one.text)
    assert len(one.blocks) == len(one.text) // 64
    assert two.blocks[:15] == one.blocks[:15]
    assert render([first], [{"type": "function"}]).blocks[0] != one.blocks[0]
    assert raw("").tokens == 1


def test_parts_of_a_content() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    prompt = render([{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}])
    assert "what is it?" in prompt.text
    assert prompt.tokens > 512


@pytest.mark.parametrize("messages", [["hello"], [{"content": "x"}], [{"role": "user", "content": 5}]])
def test_messages_that_are_none(messages: list[object]) -> None:
    with pytest.raises(PromptError):
        render(messages)


def test_a_value_that_fits_its_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["C", "F"]},
            "days": {"type": "integer", "minimum": 1},
            "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
            "note": {"type": ["null", "string"]},
            "more": {"anyOf": [{"const": 3}, {"type": "string"}]},
            "left": {"type": "string"},
        },
        "required": ["city", "unit", "days", "tags", "note", "more"],
    }
    assert instance_of(schema) == {
        "city": "simulated",
        "unit": "C",
        "days": 1,
        "tags": [False, False],
        "note": None,
        "more": 3,
    }
    looped: dict[str, object] = {"type": "array", "minItems": 1}
    looped["items"] = looped
    assert instance_of(looped)
