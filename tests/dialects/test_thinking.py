"""Every way to ask for thinking has one meaning, and the nearest to the model decides."""

import json

import pytest

from gateway.dialects import ollama, openai
from gateway.dialects.errors import BadRequest

MESSAGES = [{"role": "user", "content": "hi"}]


def from_openai(**fields):
    return openai.parse_chat(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def from_ollama(**fields):
    return ollama.parse_chat(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "think"),
    [
        ({}, "unset"),
        ({"reasoning_effort": "none"}, "off"),
        ({"reasoning_effort": "minimal"}, "low"),
        ({"reasoning_effort": "low"}, "low"),
        ({"reasoning_effort": "medium"}, "medium"),
        ({"reasoning_effort": "HIGH"}, "high"),
        ({"reasoning_effort": "xhigh"}, "max"),
        ({"reasoning_effort": "max"}, "max"),
        ({"reasoning_effort": "ultra"}, "max"),
        ({"reasoning_effort": ""}, "unset"),
        ({"reasoning_effort": None}, "unset"),
        ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, "low"),
        ({"reasoning": {"enabled": False}}, "off"),
        ({"reasoning": {"effort": None}, "reasoning_effort": "high"}, "high"),
        ({"think": True}, "on"),
        ({"think": False}, "off"),
        ({"think": "high"}, "high"),
        ({"think": "true"}, "on"),
        ({"think": "none"}, "off"),
        ({"thinking": {"type": "disabled"}}, "off"),
        ({"enable_thinking": True}, "on"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "off"),
        ({"chat_template_kwargs": {"thinking": True}}, "on"),
        ({"chat_template_kwargs": {"enable_thinking": "false"}}, "off"),
        ({"chat_template_kwargs": {"enable_thinking": False}, "think": True, "reasoning_effort": "high"}, "off"),
        ({"think": False, "reasoning_effort": "high"}, "off"),
        ({"mode": "thinking"}, "on"),
        ({"mode": "Non-Thinking"}, "off"),
        ({"mode": "no_think"}, "off"),
        ({"mode": "fast"}, "off"),
        ({"mode": True}, "on"),
        ({"mode": "auto"}, "unset"),
        ({"mode": "low"}, "low"),
        ({"options": {"mode": "instruct"}}, "off"),
        ({"options": {"mode": "thinking"}, "mode": "instruct"}, "on"),
        ({"reasoning_effort": "none", "mode": "thinking"}, "off"),
    ],
)
def test_openai(fields, think):
    chat = from_openai(**fields)
    assert chat.think == think
    assert not {"mode", "think", "reasoning_effort", "reasoning", "chat_template_kwargs"} & (
        chat.extra.keys() | chat.options.keys()
    )


@pytest.mark.parametrize(
    ("fields", "think"),
    [
        ({}, "unset"),
        ({"think": None}, "unset"),
        ({"think": True}, "on"),
        ({"think": False}, "off"),
        ({"think": "low"}, "low"),
        ({"think": "medium"}, "medium"),
        ({"think": "high"}, "high"),
        ({"think": "max"}, "max"),
        ({"think": "true"}, "on"),
        ({"think": "false"}, "off"),
        ({"think": "none"}, "off"),
        ({"options": {"mode": "thinking"}}, "on"),
        ({"options": {"mode": "nothink"}}, "off"),
        ({"options": {"mode": "default"}}, "unset"),
        ({"think": False, "options": {"mode": "thinking"}}, "off"),
        ({"options": {"reasoning_effort": "high"}}, "high"),
        ({"options": {"reasoning_effort": "whatever"}}, "unset"),
    ],
)
def test_ollama(fields, think):
    chat = from_ollama(**fields)
    assert chat.think == think
    assert not {"mode", "reasoning_effort"} & chat.options.keys()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"think": "silly"}, 'invalid think value: "silly" (must be "high", "medium", "low", "max", true, or false)'),
        ({"think": "xhigh"}, 'invalid think value: "xhigh" (must be "high", "medium", "low", "max", true, or false)'),
        ({"think": 1}, 'think must be a boolean or string ("high", "medium", "low", "max", true, or false)'),
        ({"think": ["high"]}, 'think must be a boolean or string ("high", "medium", "low", "max", true, or false)'),
    ],
)
def test_ollama_refuses_in_its_own_words(fields, message):
    with pytest.raises(BadRequest) as caught:
        from_ollama(**fields)
    assert (caught.value.status, caught.value.message) == (400, message)


@pytest.mark.parametrize("fields", [{"options": {"mode": "silly"}}, {"options": {"mode": 3}}])
def test_ollama_refuses_an_unknown_mode(fields):
    with pytest.raises(BadRequest, match="mode"):
        from_ollama(**fields)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": "silly"}, "reasoning_effort"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"reasoning": {"effort": "silly"}}, "reasoning.effort"),
        ({"reasoning": "high"}, "reasoning"),
        ({"think": "silly"}, "think"),
        ({"chat_template_kwargs": {"enable_thinking": "maybe"}}, "chat_template_kwargs.enable_thinking"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"mode": "silly"}, "mode"),
        ({"think": True, "mode": "silly"}, "mode"),
        ({"thinking": {"type": "perhaps"}}, "thinking.type"),
        ({"thinking": {"type": []}}, "thinking.type"),
    ],
)
def test_openai_refuses_unknown_words(fields, param):
    with pytest.raises(BadRequest) as caught:
        from_openai(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_other_template_variables_are_kept():
    chat = from_openai(chat_template_kwargs={"enable_thinking": False, "preserve": [1, {"a": None}], "lang": "é"})
    assert json.loads(bytes(chat.extra["chat_template_kwargs"])) == {"preserve": [1, {"a": None}], "lang": "é"}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, True),
        ({"include_reasoning": True}, True),
        ({"include_reasoning": False}, False),
        ({"reasoning": {"exclude": True, "effort": "high"}}, False),
        ({"reasoning": {"exclude": False}}, True),
    ],
)
def test_thinking_can_be_hidden(fields, shown):
    assert from_openai(**fields).show_reasoning is shown
