"""Questions drawn by chance, and ways to write each down in a dialect."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from hypothesis import strategies as st

from buffer.backend import ModelInfo
from buffer.job import Chat
from buffer.load import BackendState
from gateway.dialects import ollama, openai
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
