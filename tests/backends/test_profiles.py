"""What a client leaves unset is sampled as a model's makers want it, by the mode that holds."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from backends.render_openai import render
from backends.thinking import plan
from buffer.backend import Kind
from buffer.job import Chat, Message, Sampling, Think
from buffer.model_records import Families
from buffer.setting_values import parse_models
from tests.backends.rig import backend, chat, run, scripted

NAMES = ("temperature", "top_p", "top_k", "min_p")
THINKING, PLAIN = (0.6, 0.95, 20, 0), (0.7, 0.8, 20, 0)
NONE = (None, None, None, None)


def sampled(model: str, think: Think, kind: Kind = "vllm", families: Families | None = None, **given: Any) -> Any:
    asked = Chat("m", [Message("user", "x")], think=think, sampling=Sampling(**given))
    body = render(asked, kind, model, plan(asked, model, kind, families=families or Families())).fields
    return tuple(body.get(name) for name in NAMES)


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "openai"])
@pytest.mark.parametrize(
    ("model", "think", "expected"),
    [
        ("Qwen/Qwen3-14B-FP8", "on", THINKING),
        ("Qwen/Qwen3-14B-FP8", "high", THINKING),
        ("Qwen/Qwen3-14B-FP8", "unset", THINKING),
        ("Qwen/Qwen3-14B-FP8", "off", PLAIN),
        ("Qwen3-4B-Instruct-2507", "unset", PLAIN),
        ("Qwen3-4B-Instruct-2507", "on", PLAIN),
        ("Qwen3-4B-Thinking-2507", "unset", THINKING),
        ("Qwen3-4B-Thinking-2507", "off", THINKING),
    ],
)
def test_by_mode(kind: Kind, model: str, think: Think, expected: Any) -> None:
    assert sampled(model, think, kind) == expected


@pytest.mark.parametrize("model", ["llama3.2", "some-model", "Qwen3.5-27B", "gpt-oss:20b", "qwen3-embedding"])
def test_models_without_a_profile(model: str) -> None:
    assert sampled(model, "unset") == NONE


def test_what_the_client_sets_is_what_is_sent() -> None:
    assert sampled("qwen3", "on", temperature=0.0) == (0, 0.95, 20, 0)
    assert sampled("qwen3", "off", top_p=1.0, top_k=-1) == (0.7, 1, -1, 0)


def test_the_operators_own() -> None:
    own = Families(parse_models([{"name": "acme-*", "sampling": {"thinking": {"temperature": 1, "top_p": 0.5}}}]))
    assert sampled("acme-1", "on", families=own) == (1, 0.5, None, None)
    assert sampled("acme-1", "off", families=own) == NONE


def test_a_beginning_that_is_gone_on_from_is_no_thinking() -> None:
    asked = Chat("m", [Message("user", "x"), Message("assistant", "y")], think="on")
    fields = render(asked, "vllm", "qwen3", plan(asked, "qwen3", "vllm")).fields
    assert tuple(fields[name] for name in NAMES) == PLAIN


async def test_ollama_goes_by_its_modelfile() -> None:
    async with scripted("ollama") as engine, backend(engine.url, "ollama") as made:
        await run(made, chat(think="on"), model="qwen3:8b")
        assert engine.requests[-1].json()["options"] == {}


async def test_thinking_at_temperature_0_is_done_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "doublebuffer.backends")
    greedy = Sampling(temperature=0)
    async with scripted("vllm", models=["qwen3"]) as engine, backend(engine.url) as made:
        for think in ("off", "on", "on"):
            await run(made, msgspec.structs.replace(chat(think=think), sampling=greedy), model="qwen3")
            assert engine.requests[-1].json()["temperature"] == 0
    assert ["temperature 0" in record.getMessage() for record in caplog.records] == [True]
