"""Odd bodies: any of the APIs' fields, each with a value that it may have, or with any other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.conformance.bench import MODELS
from tests.conformance.openai_chats import LOOK, PIXEL, TOOLS

NAMES = [model for key, model in MODELS.items() if key != "real"]
WORDS = [
    "",
    "auto",
    "none",
    "required",
    "high",
    "json",
    "json_object",
    "text",
    "5m",
    "-1",
    "true",
    "data:image/png;base64,",
]
WORDS += ["http://127.0.0.1/x", "data:,", "\0", "\u2028", "é", "😀", "\ud800", "x" * 300, "../..", "sha256:" + "0" * 64]
words = st.sampled_from(WORDS) | st.text(max_size=8)
numbers = st.integers(-3, 9) | st.sampled_from(
    [-(2**63), 2**63, 2**64, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")]
)
odd = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def some(*values: Any) -> st.SearchStrategy[Any]:
    """A value of these, or of these strategies; now and then any other."""
    fit = st.one_of(*(one if isinstance(one, st.SearchStrategy) else st.just(one) for one in values))
    return st.integers(0, 39).flatmap(lambda dice: odd if dice == 7 else fit)


def part_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with any of these fields."""
    return some(st.fixed_dictionaries({}, optional=fields))


def whole_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with all of these fields."""
    return some(st.fixed_dictionaries(fields))


def lists_of(*kinds: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[Any]:
    return some(st.lists(st.one_of(*kinds), max_size=most))


model = st.integers(0, 39).flatmap(lambda dice: odd if dice == 7 else st.sampled_from(NAMES))
text = some("Hello", "words:2", "call:look", words)
schema = some(LOOK, {"type": "object"}, {})
image = some(PIXEL, f"data:image/png;base64,{PIXEL}", "http://127.0.0.1/x.png", "not base64")
call = whole_of(
    id=some("call_1", "call_2"),
    type=some("function"),
    function=whole_of(name=some("look"), arguments=some('{"city":"Oslo"}', {"city": "Oslo"}, "")),
)
roles = some("user", "assistant", "system", "tool", "developer", "function", "User")
parts = lists_of(
    whole_of(type=some("text", "input_text", "output_text"), text=text),
    whole_of(type=some("image_url"), image_url=some(image, whole_of(url=image))),
    whole_of(type=some("input_audio"), input_audio=part_of(data=image, format=some("wav", "mp3"))),
    whole_of(type=some("image"), source=part_of(type=some("base64", "url"), media_type=some("image/png"), data=image)),
    whole_of(type=some("tool_use"), id=some("t1"), name=some("look"), input=some({"city": "Oslo"})),
    whole_of(type=some("tool_result"), tool_use_id=some("t1"), content=text),
    whole_of(type=some("thinking"), thinking=words, signature=words),
)
message = st.fixed_dictionaries(
    {"role": roles, "content": some(text, parts, None)},
    optional={
        "tool_calls": lists_of(call),
        "tool_call_id": some("call_1"),
        "tool_name": some("look"),
        "name": some("look"),
        "thinking": text,
        "reasoning_content": text,
        "images": lists_of(image),
        "function_call": whole_of(name=some("look"), arguments=some("{}")),
    },
)
plain = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": some(text, parts)})
messages = st.lists(st.one_of(plain, plain, plain, message), min_size=1, max_size=4) | lists_of(message)
sampling: dict[str, st.SearchStrategy[Any]] = {
    "temperature": some(0, 0.7, 3),
    "top_p": some(0.9, 0, 2),
    "top_k": some(20, -1, 1.5),
    "min_p": some(0.1),
    "typical_p": some(1),
    "seed": some(1, -1),
    "presence_penalty": some(0, 9),
    "frequency_penalty": some(0),
    "repeat_penalty": some(1.1, 0),
    "repeat_last_n": some(64, -1),
    "stop": some("x", ["a", "b"], ["1", "2", "3", "4", "5"], ["", "a"], []),
}
options = part_of(
    **sampling,
    num_predict=some(-1, 0, 5, -2),
    num_ctx=some(2048),
    num_keep=some(4),
    mode=some("thinking", "auto"),
    mirostat=some(1),
    use_mmap=some(True),
    reasoning_effort=some("low"),
)
tools = some(
    TOOLS, [], [{"type": "function", "name": "look", "parameters": LOOK}], [{"name": "look", "input_schema": LOOK}]
)
tools |= lists_of(
    part_of(type=some("function", "custom", "web_search"), name=some("look"), parameters=schema, function=odd)
)
thinking = some(
    True, False, "low", {"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, {"type": "adaptive"}
)
logit = {"logprobs": some(True, 2), "top_logprobs": some(2, 21)}
ollama_fields: dict[str, st.SearchStrategy[Any]] = {
    "model": model,
    "name": model,
    "stream": some(True, False),
    "format": some("json", LOOK, ""),
    "options": options,
    "think": thinking,
    "keep_alive": some("5m", 0, -1, "300", 1.5),
    "truncate": some(True, False),
    "shift": some(True),
    "tools": tools,
    "system": text,
    "mode": some("thinking"),
    **logit,
}
openai_fields: dict[str, st.SearchStrategy[Any]] = {
    "model": model,
    "stream": some(True, False),
    "stream_options": part_of(include_usage=some(True)),
    "max_tokens": some(5, 6, 7, 8, 9, 0),
    "max_completion_tokens": some(5),
    "n": some(1, 2),
    "tools": tools,
    "tool_choice": some(
        "auto", "none", "required", {"type": "function", "function": {"name": "look"}}, {"type": "any"}
    ),
    "parallel_tool_calls": some(True, False),
    "response_format": some(
        {"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "n", "schema": LOOK}}
    )
    | part_of(type=some("json_schema", "text", "structural_tag"), json_schema=part_of(name=words, schema=schema)),
    "reasoning_effort": some("none", "low", "xhigh"),
    "reasoning": part_of(effort=some("low"), enabled=some(True), exclude=some(True), summary=some("auto")),
    "chat_template_kwargs": part_of(enable_thinking=some(True, "false"), thinking=some(False)),
    "include_reasoning": some(False),
    "think": thinking,
    "options": options,
    "keep_alive": some("5m"),
    "logit_bias": some({"5": 1}),
    "structured_outputs": part_of(json=schema, regex=some("a+"), choice=some(["a"]), grammar=some("root ::= 'a'")),
    "guided_json": schema,
    "guided_choice": some(["a"]),
    "user": words,
    "priority": some(1),
    "metadata": some({"a": "b"}),
    "ignore_eos": some(True),
    **logit,
    **sampling,
}
completion = {"suffix": some("the end", ""), "echo": some(True), "best_of": some(1), "logprobs": some(2)}
prompts = some("Once", ["Once", "Twice"], [1, 2, 3], [[1], [2]], "", [])
item = some(
    whole_of(role=roles, content=some(text, parts)),
    whole_of(type=some("function_call"), call_id=some("c1"), name=some("look"), arguments=some("{}", "{")),
    whole_of(type=some("function_call_output"), call_id=some("c1"), output=some(text, parts)),
    whole_of(type=some("reasoning"), id=words, summary=lists_of(whole_of(type=some("summary_text"), text=text))),
    whole_of(type=some("item_reference", "web_search_call"), id=words),
)
_MOSTLY = (
    *("model", "messages", "prompt", "input", "max_tokens", "source", "destination"),
    *("input_file_id", "endpoint", "completion_window"),
)
"""Fields without which a body gets no further than the first look; they are seldom left out."""


def bodies(fields: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[bytes]:
    """Bodies of a route as bytes: most of them JSON objects, some cut or bent, some nothing of the kind."""
    mostly = [name for name in _MOSTLY if name in fields]
    rest = sorted(fields.keys() - set(mostly))
    chosen = st.lists(st.sampled_from(rest), max_size=5, unique=True) if rest else st.just([])
    objects = st.tuples(chosen, st.integers(0, 15)).flatmap(lambda told: _object(fields, mostly, *told))
    whole = objects.map(lambda body: json.dumps(body).encode())
    bent = st.tuples(whole, st.integers(0, 200), st.binary(max_size=3)).map(
        lambda told: told[0][: told[1]] + told[2] + told[0][told[1] + 1 :]
    )
    nothing = st.binary(max_size=20) | odd.map(lambda value: json.dumps(value).encode())
    deep = st.sampled_from([b"[" * 9999, b'{"model":' * 9999, b'{"messages":' + b"[" * 3000 + b"]" * 3000 + b"}"])
    return st.integers(0, 19).flatmap(
        lambda dice: deep if dice == 11 else nothing if dice == 7 else bent if dice == 13 else whole
    )


def _object(
    fields: Mapping[str, st.SearchStrategy[Any]], mostly: Sequence[str], chosen: list[str], left_out: int
) -> st.SearchStrategy[dict[str, Any]]:
    kept = [name for place, name in enumerate(mostly, 12) if place != left_out]
    return st.fixed_dictionaries({name: fields[name] for name in [*kept, *chosen]})
