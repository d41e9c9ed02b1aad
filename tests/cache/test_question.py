"""Two bodies have one digest if they ask the same, however they are spelled and in which dialect, and never else."""

from __future__ import annotations

import base64
import dataclasses
import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from buffer.backend import ModelInfo
from buffer.job import Chat, Format, Message, Sampling
from buffer.load import BackendState
from buffer.model_records import ModelRecord
from gateway.dialects import anthropic, generate, ollama, openai, responses
from gateway.models import Model, merge
from gateway.question import ask

PICTURES = [base64.b64encode(b"\x89PNG" + bytes([place]) * 40).decode() for place in range(3)]
SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}},
    {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "string"}}},
]


def model(digest: str = "d1", *, name: str = "m", kind: str = "vllm", **more: Any) -> Model:
    info = ModelInfo(name, digest=digest, context_length=100_000)
    state = BackendState(name="e", kind=kind, up=True, models=[info], limit=8, **more)  # type: ignore[arg-type]
    found = merge([("default", state)], 1).find(name)
    assert found is not None
    return found


MODEL = model()
TEXTS = st.text(min_size=1, max_size=12).filter(lambda text: text.strip() == text)
TURNS = st.lists(
    st.tuples(st.sampled_from(["system", "user", "assistant"]), TEXTS, st.sampled_from([None, *PICTURES])),
    max_size=3,
).map(
    lambda turns: [
        *((role, text, image if role == "user" else None) for role, text, image in turns),
        ("user", "q", None),
    ]
)
UNIT = st.floats(0.01, 1).map(lambda number: round(number, 3))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "turns": TURNS,
    "seed": st.integers(0, 5),
    "temperature": st.one_of(st.none(), st.sampled_from([0, 0.5, 1, 2])),
    "top_p": st.one_of(st.none(), UNIT),
    "top_k": st.one_of(st.none(), st.integers(0, 99)),
    "min_p": st.one_of(st.none(), UNIT),
    "presence_penalty": st.one_of(st.none(), st.sampled_from([-1, 0, 1.5])),
    "frequency_penalty": st.one_of(st.none(), st.sampled_from([-1, 0, 1.5])),
    "repeat_penalty": st.one_of(st.none(), st.sampled_from([1, 1.1])),
    "max": st.one_of(st.none(), st.integers(1, 500)),
    "stop": st.lists(TEXTS, max_size=3),
    "format": st.sampled_from([None, "json", *SCHEMAS]),
    "think": st.sampled_from(["unset", "off"]),
    "num_ctx": st.one_of(st.none(), st.sampled_from([2048, 8192])),
    "mirostat": st.one_of(st.none(), st.sampled_from([0, 1, 2])),
    "logprobs": st.sampled_from([None, 0, 5]),
}
SPECS = st.fixed_dictionaries(FIELDS)
NUMBERS = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repeat_penalty", "seed")


class Speller:
    """One way to write a question down, drawn by chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self) -> bool:
        return self.random.random() < 0.5

    def number(self, value: float) -> float:
        return float(value) if self.maybe() else value

    def body(self, fields: dict[str, Any]) -> bytes:
        names = list(fields)
        self.random.shuffle(names)
        options = {"indent": self.random.choice([None, 2]), "ensure_ascii": self.maybe()}
        return json.dumps({name: fields[name] for name in names}, **options).encode("utf-8", "surrogatepass")  # type: ignore[arg-type]

    def ollama(self, spec: dict[str, Any]) -> Chat:
        turns = []
        for role, text, image in spec["turns"]:
            turn: dict[str, Any] = {"role": role, "content": text}
            if image is not None:
                turn["images"] = [image if self.maybe() else f"data:image/jpeg;base64,{image}"]
            elif self.maybe():
                turn["images"] = None
            turns.append(turn)
        options = {name: self.number(spec[name]) for name in NUMBERS if spec[name] is not None}
        options |= {name: spec[name] for name in ("num_ctx", "mirostat") if spec[name] is not None}
        if spec["max"] is not None:
            options["num_predict"] = spec["max"]
        elif self.maybe():
            options["num_predict"] = -1
        if spec["stop"] or self.maybe():
            options["stop"] = spec["stop"][0] if len(spec["stop"]) == 1 and self.maybe() else spec["stop"]
        body: dict[str, Any] = {"model": "m" if self.maybe() else "M", "messages": turns, "options": options}
        if spec["format"] is not None:
            body["format"] = spec["format"]
        if spec["think"] == "off":
            body["think"] = False
        if spec["logprobs"] is not None:
            body |= {"logprobs": True, "top_logprobs": spec["logprobs"]}
        spare = {"stream": self.maybe(), "keep_alive": "5m", "tools": [], "truncate": True, "template": None}
        body |= {name: value for name, value in spare.items() if self.maybe()}
        return ollama.parse_chat(self.body(body))

    def openai(self, spec: dict[str, Any]) -> Chat:
        turns = []
        for role, text, image in spec["turns"]:
            content: Any = [{"type": "text", "text": text}] if self.maybe() or image is not None else text
            if image is not None:
                content.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}})
            turns.append({"role": "developer" if role == "system" and self.maybe() else role, "content": content})
        body: dict[str, Any] = {"model": "m", "messages": turns}
        body |= {name: self.number(spec[name]) for name in NUMBERS if spec[name] is not None}
        options = {name: spec[name] for name in ("num_ctx", "mirostat") if spec[name] is not None}
        if options:
            body |= {"options": options} if self.maybe() else options
        if spec["max"] is not None:
            body[self.random.choice(["max_tokens", "max_completion_tokens"])] = spec["max"]
        if spec["stop"]:
            body["stop"] = spec["stop"][0] if len(spec["stop"]) == 1 and self.maybe() else spec["stop"]
        if spec["format"] == "json":
            body["response_format"] = {"type": "json_object"}
        elif spec["format"] is not None:
            schema = {"name": "schema", "schema": spec["format"]}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if spec["think"] == "off":
            body["reasoning_effort"] = "none"
        if spec["logprobs"] is not None:
            body |= {"logprobs": True, "top_logprobs": spec["logprobs"]}
        elif self.maybe():
            body["logprobs"] = False
        spare = {"stream": self.maybe(), "n": 1, "user": "ann", "tools": [], "metadata": {"a": "b"}, "store": True}
        spare |= {"stream_options": {"include_usage": True}, "seed": spec["seed"], "top_a": None}
        body |= {name: value for name, value in spare.items() if self.maybe()}
        return openai.parse_chat(self.body(body))

    def any(self, spec: dict[str, Any]) -> Chat:
        return self.ollama(spec) if self.maybe() else self.openai(spec)


def digest(chat: Chat, of: Model = MODEL, scope: str = "") -> str:
    found = ask(chat, of, scope)
    assert found is not None
    return found.digest


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
