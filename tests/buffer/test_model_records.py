"""What an operator says of models, and the names that ask for something."""

from __future__ import annotations

from typing import Any

import pytest

from buffer.job import Sampling, Think
from buffer.model_records import Families
from buffer.setting_values import parse_models


def families(*records: dict[str, Any]) -> Families:
    return Families(parse_models(list(records)))


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("qwen3:14b", "Qwen/Qwen3-14B", True),
        ("Qwen3-14B", "qwen3:14b", True),
        ("qwen3*", "qwen3:14b-fp8", True),
        ("qwen3", "qwen3:14b", False),
        ("qwen3:latest", "qwen3", True),
        ("*-fp8", "Qwen/Qwen3-14B-FP8", True),
        ("*", "anything", True),
        ("Qwen/*", "Qwen/Qwen3-14B", True),
        ("Qwen/*", "unsloth/Qwen3-14B", False),
        ("Qwen/*", "qwen3:14b", False),
        ("q.en3", "qwen3", False),
    ],
)
def test_patterns(pattern: str, name: str, fits: bool) -> None:
    assert (families({"name": pattern}).record(name) is not None) is fits


def test_the_first_record_that_fits_decides_and_the_upstream_name_before_the_clients() -> None:
    found = families({"name": "a*", "think": "on"}, {"name": "*", "think": "off"})
    first, second = found.record("abc"), found.record("xyz", "abc")
    assert first is not None
    assert second is not None
    assert (first.think, second.think) == ("on", "off")


@pytest.mark.parametrize(
    ("record", "name", "expected"),
    [
        ({}, "my-model", {"thinks": "hybrid", "known": False}),
        ({"thinks": "never"}, "my-model", {"thinks": "never", "default": "off", "known": True}),
        ({"thinks": "always"}, "my-model", {"thinks": "always", "default": "on"}),
        ({"thinks": "hybrid"}, "llama3.2", {"switch": "enable_thinking", "default": "on", "open_tag": "<think>"}),
        ({"thinks": "hybrid"}, "gemma4", {"default": "off", "open_tag": ""}),
        ({"default": "off"}, "qwen3:8b", {"thinks": "hybrid", "default": "off", "switch": "enable_thinking"}),
        ({"switch": "thinking"}, "my-model", {"switch": "thinking", "known": True}),
        ({"tags": ["<a>", "</a>"], "prompt_opens": True}, "my-model", {"open_tag": "<a>", "prompt_opens": True}),
        ({"tags": []}, "qwen3", {"open_tag": "", "close_tag": ""}),
        ({"effort_words": {"max": "xl"}, "switch": "effort"}, "m", {"effort_words": {"max": "xl"}, "switch": "effort"}),
        ({"system_first": True}, "m", {"system_first": True}),
        ({"think": "off", "aliases": {"-x": "on"}}, "m", {"known": False}),
    ],
)
def test_what_is_said_goes_before_what_the_name_tells(record: Any, name: str, expected: dict[str, Any]) -> None:
    found = families({"name": "*", **record}).of(name)
    assert {key: getattr(found, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "readings"),
    [
        ("qwen3:14b-nothink", [("qwen3:14b", "off")]),
        ("Qwen/Qwen3-14B-NoThink", [("Qwen/Qwen3-14B", "off")]),
        ("qwen3:14b-nothink:latest", [("qwen3:14b", "off")]),
        ("qwen3:14b:nothink", [("qwen3:14b", "off")]),
        ("qwen3_thinking", [("qwen3", "on")]),
        ("qwen3:14b-think-hard", [("qwen3:14b", "high")]),
        ("qwen3:14b", []),
        ("llama3-nothink", []),
        ("-nothink", []),
        ("İqwen3-nothink", []),
    ],
)
def test_ends_of_names(name: str, readings: list[tuple[str, Think]]) -> None:
    ends = {"-nothink": "off", "-thinking": "on", "-think-hard": "high"}
    assert list(families({"name": "qwen3*", "aliases": ends}).split(name)) == readings


def test_an_end_says_nothing_of_the_family() -> None:
    """``qwen3-thinking`` is a model that cannot but think; here it is only a wish."""
    found = families({"name": "qwen3*", "aliases": {"-thinking": "on"}})
    assert found.of("big", "qwen3:14b-thinking").name == "qwen3"
    assert Families().of("big", "qwen3:14b-thinking").name == "qwen3-thinking"


def test_sampling_is_taken_whole() -> None:
    own = {"name": "qwen3*", "sampling": {"thinking": {"temperature": 1}}}
    assert families(own).of("qwen3").profile("on") == parse_models([own])[0].sampling["thinking"]  # type: ignore[index]
    assert families(own).of("qwen3").profile("off") is None
    assert families({"name": "qwen3*", "sampling": {}}).of("qwen3").profile("unset") is None
    assert families().of("qwen3").profile("unset") == Sampling(temperature=0.6, top_p=0.95, top_k=20, min_p=0)


@pytest.mark.parametrize(
    "wrong",
    [
        '[{"think": "off"}]',
        '[{"name": " "}]',
        '[{"name": "a", "thinks": "maybe"}]',
        '[{"name": "a", "think": "loud"}]',
        '[{"name": "a", "tags": ["<think>"]}]',
        '[{"name": "a", "tags": ["<think>", ""]}]',
        '[{"name": "a", "aliases": {"": "off"}}]',
        '[{"name": "a", "aliases": {":latest": "off"}}]',
        '[{"name": "a", "aliases": {"-x": "loud"}}]',
        '[{"name": "a", "sampling": {"thinking": {"temprature": 1}}}]',
        '[{"name": "a", "sampling": {"fast": {}}}]',
        '[{"name": "a", "effort_words": {"huge": "x"}}]',
        '[{"name": "a", "colour": 1}]',
        '{"name": "a"}',
        "none",
    ],
)
def test_records_that_are_none(wrong: str) -> None:
    with pytest.raises(ValueError, match="model"):
        parse_models(wrong)
