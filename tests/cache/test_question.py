"""Two bodies have one digest if they ask the same, however they are spelled and in which dialect, and never else."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from buffer.job import Chat, Format, Message, Sampling
from buffer.model_records import ModelRecord
from gateway.dialects import anthropic, generate, ollama, openai, responses
from gateway.models import Model
from gateway.question import ask
from tests.cache.spelling import FIELDS, MODEL, SPECS, Speller, digest, model


@given(SPECS, st.integers(0, 2**32), st.integers(0, 2**32))
def test_spellings_of_one_question_have_one_digest(spec: dict[str, Any], one: int, other: int) -> None:
    assert digest(Speller(one).any(spec)) == digest(Speller(other).any(spec))


@settings(max_examples=300)
@given(SPECS, st.sampled_from(sorted(FIELDS)), st.data(), st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_change_of_one_field_changes_the_digest(
    spec: dict[str, Any], field: str, data: st.DataObject, one: int, other: int
) -> None:
    value = data.draw(FIELDS[field].filter(lambda value: value != spec[field] or _order(value) != _order(spec[field])))
    assert digest(Speller(one).any(spec)) != digest(Speller(other).any(spec | {field: value}))


def _order(value: Any) -> str:
    return json.dumps(value)


BASE = Chat("m", [Message("user", "q")], sampling=Sampling(temperature=0.0))
SENT_ONLY = {"model", "stream", "show_reasoning", "include_usage", "keep_alive", "tool_choice", "parallel_tool_calls"}
"""Fields of a chat that only say how its answer is to be sent, or say nothing without tools."""
OTHERS: dict[str, Any] = {
    "messages": [Message("user", "r")],
    "think": "off",
    "sampling": Sampling(temperature=0.0, top_p=0.5),
    "max_tokens": 5,
    "stop": ["x"],
    "n": 2,
    "format": Format("json"),
    "logprobs": True,
    "top_logprobs": 3,
    "options": {"num_ctx": msgspec.Raw(b"8192")},
    "extra": {"cache_salt": msgspec.Raw(b'"s"')},
    "truncate": False,
    "prompt": "p",
    "suffix": "s",
    "prompt_tokens": [1, 2],
}


def test_every_field_of_the_form_inside_has_been_thought_of() -> None:
    """A new one counts, and this test wants to be told."""
    assert set(Chat.__struct_fields__) == SENT_ONLY | set(OTHERS) | {"front", "tools"}
    digests = {digest(BASE), *(digest(structs.replace(BASE, **{name: value})) for name, value in OTHERS.items())}
    assert len(digests) == 1 + len(OTHERS)
    for name, value in {"model": "M", "stream": True, "include_usage": True, "show_reasoning": False}.items():
        assert digest(structs.replace(BASE, **{name: value})) == digest(BASE)


def test_each_message_field_counts() -> None:
    changes = ({"role": "assistant"}, {"reasoning": "hm"}, {"tool_call_id": "c"}, {"tool_name": "f"}, {"name": "ann"})
    messages = [Message("user", "q"), *(structs.replace(Message("user", "q"), **change) for change in changes)]
    assert len({digest(structs.replace(BASE, messages=[one])) for one in messages}) == len(messages)


@pytest.mark.parametrize("other", [model("d2"), model(name="other"), model(kind="llamacpp"), model("")])
def test_what_stands_behind_the_model_s_name_counts(other: Model) -> None:
    assert digest(BASE, other) != digest(BASE)


def test_its_operator_s_words_count_and_so_does_for_whom_it_is() -> None:
    said = dataclasses.replace(MODEL, record=ModelRecord(name="m", sampling={}))
    assert digest(BASE, said) != digest(BASE)
    assert len({digest(BASE, MODEL, scope) for scope in ("", "key:ann", "key:bob")}) == 3


@pytest.mark.parametrize(
    "chat",
    [
        structs.replace(BASE, sampling=Sampling()),
        structs.replace(BASE, sampling=Sampling(temperature=0.7)),
        structs.replace(BASE, sampling=Sampling(temperature=0.7, seed=-1)),
        structs.replace(BASE, think="on"),
        structs.replace(BASE, think="low"),
        structs.replace(BASE, tools=[msgspec.Raw(b"{}")]),
        structs.replace(BASE, max_tokens=0),
    ],
)
def test_these_have_none(chat: Chat) -> None:
    assert ask(chat, MODEL) is None


def test_nor_has_a_picture_behind_a_link() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    body = {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": [part]}]}
    assert ask(openai.parse_chat(json.dumps(body).encode(), allow_image_urls=True), MODEL) is None


def test_all_dialects_meet() -> None:
    turns = [{"role": "user", "content": "q"}]
    chats = [
        openai.parse_chat(json.dumps({"model": "m", "messages": turns, "temperature": 0, "max_tokens": 9}).encode()),
        ollama.parse_chat(
            json.dumps({"model": "m", "messages": turns, "options": {"temperature": 0, "num_predict": 9}}).encode()
        ),
        generate.parse(
            json.dumps({"model": "m", "prompt": "q", "options": {"temperature": 0, "num_predict": 9}}).encode()
        ),
        anthropic.parse_chat(json.dumps({"model": "m", "messages": turns, "temperature": 0, "max_tokens": 9}).encode()),
        responses.parse_chat(
            json.dumps({"model": "m", "input": "q", "temperature": 0, "max_output_tokens": 9, "metadata": {}}).encode()
        ),
    ]
    assert len({digest(chat) for chat in chats}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"sampling": Sampling(temperature=-1.0)},
        {"sampling": Sampling(temperature=0.0, top_p=7.0)},
        {"messages": [Message("user", "x" * 200_000)]},
        {"prompt": "once upon", "messages": []},
    ],
)
def test_where_ollama_s_clients_are_served_and_others_refused_they_do_not_share(change: dict[str, Any]) -> None:
    """Numbers are bent for them, prompts that are too long are cut, literal prompts have other bounds."""
    ours, theirs = (structs.replace(BASE, front=front, **change) for front in ("ollama", "openai"))
    assert digest(ours) != digest(theirs)
