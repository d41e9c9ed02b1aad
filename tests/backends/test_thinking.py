from __future__ import annotations

from typing import Any

import pytest

from backends.thinking import ollama_think, plan
from buffer.backend import Kind
from buffer.job import Chat, Front, Message, Think, ToolCall


def chat(think: Think, *, front: Front = "openai", begun: str = "") -> Chat:
    messages = [Message("user", "x")] + ([Message("assistant", begun)] if begun else [])
    return Chat("m", messages, front=front, think=think)


KWARGS = "chat_template_kwargs"


@pytest.mark.parametrize(
    ("model", "think", "expected"),
    [
        ("some-model", "unset", {}),
        ("some-model", "off", {KWARGS: {"enable_thinking": False}}),
        ("some-model", "on", {KWARGS: {"enable_thinking": True}}),
        ("some-model", "low", {KWARGS: {"enable_thinking": True}, "reasoning_effort": "low"}),
        ("some-model", "max", {KWARGS: {"enable_thinking": True}, "reasoning_effort": "high"}),
        ("Qwen/Qwen3-14B-FP8", "unset", {}),
        ("Qwen/Qwen3-14B-FP8", "off", {KWARGS: {"enable_thinking": False}}),
        ("Qwen/Qwen3-14B-FP8", "high", {KWARGS: {"enable_thinking": True}}),
        ("Qwen3.8-32B", "high", {KWARGS: {"enable_thinking": True}, "reasoning_effort": "xhigh"}),
        ("DeepSeek-V3.1", "on", {KWARGS: {"thinking": True, "enable_thinking": True}}),
        ("gpt-oss:20b", "unset", {}),
        ("gpt-oss:20b", "off", {"reasoning_effort": "low"}),
        ("gpt-oss:20b", "on", {}),
        ("gpt-oss:20b", "max", {"reasoning_effort": "high"}),
        ("deepseek-r1", "off", {}),
        ("deepseek-r1", "on", {}),
        ("Qwen3-4B-Instruct-2507", "off", {KWARGS: {"enable_thinking": False}}),
        ("Qwen3-4B-Instruct-2507", "on", {}),
    ],
)
def test_switch_of_each_family(model: str, think: Think, expected: dict[str, Any]) -> None:
    assert plan(chat(think), model, "vllm").fields == expected


@pytest.mark.parametrize(
    ("model", "think", "kind", "mode"),
    [
        ("some-model", "unset", "vllm", "show"),
        ("some-model", "off", "vllm", "hold"),
        ("qwen3", "on", "llamacpp", "show"),
        ("qwen3", "off", "ollama", "hold"),
        ("deepseek-r1", "off", "vllm", "drop"),
        ("gpt-oss", "off", "ollama", "drop"),
        ("Qwen3-4B-Instruct-2507", "unset", "vllm", "answer"),
        ("Qwen3-4B-Instruct-2507", "off", "vllm", "answer"),
        ("Qwen3-4B-Instruct-2507", "on", "vllm", "show"),
        ("llama3.2", "unset", "ollama", "show"),
    ],
)
def test_what_becomes_of_thinking(model: str, think: Think, kind: Kind, mode: str) -> None:
    assert plan(chat(think), model, kind).mode == mode


def test_answers_that_begin_inside_the_thinking() -> None:
    assert plan(chat("unset"), "QwQ-32B", "vllm").inside
    assert plan(chat("on"), "Qwen3.5-9B", "openai").inside
    assert not plan(chat("off"), "Qwen3.5-9B", "vllm").inside
    # These split by themselves; nothing but their own parsers knows where such an answer begins.
    assert not plan(chat("on"), "Qwen3.5-9B", "ollama").inside
    assert not plan(chat("on"), "Qwen3.5-9B", "llamacpp").inside
    assert not plan(chat("on"), "Qwen3.5-9B", "vllm", parses=True).inside


def test_going_on_from_a_beginning_is_without_thinking() -> None:
    begun = plan(chat("on", begun="It is"), "qwen3", "vllm")
    assert (begun.continues, begun.think, begun.mode, begun.splitter()) == (True, "off", "answer", None)
    assert plan(chat("unset", begun="It is"), "QwQ-32B", "vllm").inside is False
    called = chat("on")
    called.messages.append(Message("assistant", "x", tool_calls=[ToolCall("a", "f", "{}")]))
    assert not plan(called, "qwen3", "vllm").continues


def test_name_that_says_nothing_leaves_it_to_the_clients_name() -> None:
    asked = chat("low")
    asked.model = "gpt-oss:20b"
    assert plan(asked, "served", "vllm").fields == {"reasoning_effort": "low"}


@pytest.mark.parametrize(
    ("model", "think", "front", "expected"),
    [
        ("some-model", "unset", "openai", None),
        ("some-model", "off", "openai", False),
        ("some-model", "on", "openai", True),
        ("some-model", "high", "openai", "high"),
        ("qwen3", "high", "openai", True),
        ("gpt-oss", "max", "ollama", "high"),
        ("gpt-oss", "off", "ollama", False),
        ("qwen3.8", "max", "ollama", "max"),
        ("llama3.2", "on", "openai", None),
        ("llama3.2", "on", "ollama", True),
    ],
)
def test_think_of_ollama(model: str, think: Think, front: Front, expected: object) -> None:
    asked = chat(think, front=front)
    assert ollama_think(plan(asked, model, "ollama"), asked) == expected
