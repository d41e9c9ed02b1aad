"""A chat put in the words of one API, read by the other's dialect, and back again, still asks the same."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from backends.render_ollama import base64_of, render_ollama
from backends.render_openai import render
from backends.thinking import plan
from buffer.backend import Kind
from buffer.job import Chat, Format, ImagePart, Message, Part, Sampling, TextPart, Think, ToolCall
from gateway.dialects import ollama, openai

KINDS: list[Kind] = ["vllm", "llamacpp", "openai"]
PICTURES = [base64.b64encode(magic + bytes(12)).decode() for magic in (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0")]
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
LEVELS: tuple[Think, ...] = ("low", "medium", "high", "max")

texts = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(texts, values, max_size=3).map(json.dumps)
pictures = st.sampled_from(PICTURES).map(
    lambda data: ImagePart(f"data:image/{'png' if data[0] == 'i' else 'jpeg'};base64,{data}")
)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """A conversation: each call of a tool is answered, and the last word is not the assistant's."""
    messages = [Message("system", draw(texts))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(0, 2))):
        messages.append(Message("user", draw(_contents())))
        calls = [
            ToolCall(f"call_{turn}_{place}", draw(st.sampled_from(["look", "now"])), draw(arguments))
            for place in range(draw(st.integers(0, 2)))
        ]
        messages.append(Message("assistant", draw(texts), reasoning=draw(texts), tool_calls=calls))
        messages += [Message("tool", draw(texts), tool_call_id=call.id, tool_name=call.name) for call in calls]
    return [*messages, Message("user", draw(_contents()))]


def _contents() -> st.SearchStrategy[str | list[Part]]:
    parted = st.tuples(texts.filter(bool), st.lists(pictures, min_size=1, max_size=2))
    return texts | parted.map(lambda told: [TextPart(told[0]), *told[1]])


samplings = st.builds(
    Sampling,
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0.01, 1),
    top_k=st.none() | st.integers(0, 100),
    min_p=st.none() | st.floats(0, 1),
    repeat_penalty=st.none() | st.floats(1.01, 2),
    presence_penalty=st.none() | st.floats(-2, 2),
    frequency_penalty=st.none() | st.floats(-2, 2),
    seed=st.none() | st.integers(0, 2**31),
)
thinks: st.SearchStrategy[Think] = st.sampled_from(["unset", "off", "on", *LEVELS])
formats = st.sampled_from([None, Format("json"), Format("schema", Raw(b'{"type":"object"}'), "schema")])
chats = st.builds(
    Chat,
    model=st.sampled_from(["qwen3:8b", "Qwen/Qwen3-8B"]),
    messages=turns(),
    front=st.sampled_from(["ollama", "openai"]),
    think=thinks,
    sampling=samplings,
    max_tokens=st.none() | st.integers(1, 4096),
    stop=st.lists(texts.filter(bool), max_size=4),
    tools=st.lists(st.just(Raw(json.dumps(LOOK).encode())), max_size=2),
    format=formats,
)


def meaning(chat: Chat) -> dict[str, Any]:
    """What a chat asks for, whatever its form; as far as both APIs can say it."""
    think: Think = "on" if chat.think in LEVELS else chat.think
    return {
        "turns": [_turn(message) for message in chat.messages],
        "think": think,
        "most": chat.max_tokens,
        "stop": chat.stop,
        "tools": [json.loads(bytes(tool)) for tool in chat.tools],
        "format": chat.format and (chat.format.kind, chat.format.schema and json.loads(bytes(chat.format.schema))),
        **{name: value for name, value in msgspec.to_builtins(chat.sampling).items() if value is not None},
    }


def _turn(message: Message) -> tuple[Any, ...]:
    parts = [] if isinstance(message.content, str) else message.content
    pictures = [base64_of(part.url) for part in parts if isinstance(part, ImagePart)]
    calls = [(call.id, call.name, json.loads(call.arguments)) for call in message.tool_calls]
    return message.role, message.text(), pictures, calls, message.reasoning, message.tool_call_id, message.tool_name


def through_ollama(chat: Chat) -> Chat:
    body = render_ollama(chat, chat.model, plan(chat, chat.model, "ollama"), num_ctx=None)
    return ollama.parse_chat(msgspec.json.encode(body))


def through_openai(chat: Chat, kind: Kind) -> Chat:
    return openai.parse_chat(render(chat, kind, chat.model, plan(chat, chat.model, kind)).body())


def asked(chat: Chat, kind: Kind | None = None) -> dict[str, Any]:
    """A chat's meaning, after what its way through an engine of this kind may add or leave out."""
    found = meaning(chat)
    if kind is None:
        return found
    wanted = meaning(through_openai(Chat(chat.model, [Message("user", "x")], chat.front, think=chat.think), kind))
    # What the makers of a model want it sampled with is put in where the client said nothing.
    filled = {name: value for name, value in wanted.items() if name not in found}
    if kind == "openai":
        # There is no field for earlier thinking that every such server knows.
        found["turns"] = [(*turn[:4], "", *turn[5:]) for turn in found["turns"]]
    return found | filled


@settings(max_examples=300, deadline=None)
@given(chat=chats)
def test_in_the_words_of_ollama(chat: Chat) -> None:
    assert meaning(through_ollama(chat)) == asked(chat)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=300, deadline=None)
@given(chat=chats)
def test_in_the_words_of_openai(chat: Chat, kind: Kind) -> None:
    assert meaning(through_openai(chat, kind)) == asked(chat, kind)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=300, deadline=None)
@given(chat=chats)
def test_to_the_other_api_and_back(chat: Chat, kind: Kind) -> None:
    assert meaning(through_ollama(through_openai(chat, kind))) == asked(chat, kind)
    chat.front = "ollama"
    assert meaning(through_openai(through_ollama(chat), kind)) == asked(chat, kind)


@settings(max_examples=100, deadline=None)
@given(stop=st.lists(texts.filter(bool), min_size=5, max_size=8), kind=st.sampled_from(KINDS))
def test_no_stop_text_is_lost(stop: list[str], kind: Kind) -> None:
    chat = Chat("m", [Message("user", "x")], stop=stop)
    rendered = render(chat, kind, "m", plan(chat, "m", kind))
    assert [*rendered.fields["stop"], *rendered.stops] == stop
    assert through_ollama(chat).stop == stop


@given(think=st.sampled_from(["low", "medium", "high"]), kind=st.sampled_from(KINDS))
def test_efforts_stay_what_they_are_where_a_model_has_them(think: Think, kind: Kind) -> None:
    chat = Chat("gpt-oss:20b", [Message("user", "x")], think=think)
    assert through_ollama(chat).think == think
    assert through_openai(chat, kind).think == think
    assert through_ollama(through_openai(chat, kind)).think == think
