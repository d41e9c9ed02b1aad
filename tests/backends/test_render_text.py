"""Literal prompts in each engine's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from backends.base import BackendError
from backends.render_text import COMPLETION_TOKENS, OPEN_END_TOKENS, render_generate, render_text
from buffer.backend import Kind
from buffer.job import AudioPart, Chat, Format, ImagePart, Message, Sampling

ECHO = {"echo": Raw(b"true")}


def asked(**fields: Any) -> Chat:
    return Chat("m", [], **({"prompt": "Once"} | fields))


def body(kind: Kind = "vllm", context: int = 0, **fields: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(render_text(asked(**fields), kind, "up", context=context)[1].body())
    return decoded


def generate(num_ctx: int | None = None, **fields: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(render_generate(asked(**fields), "up", num_ctx=num_ctx)[0])
    )
    return decoded


STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def test_least_bodies() -> None:
    assert body() == {"model": "up", "prompt": "Once", **STREAM}
    assert body("openai") == body()
    # It bounds nothing by itself, and its own least probability is not zero.
    assert body("llamacpp") == {"model": "up", "prompt": "Once", "max_tokens": COMPLETION_TOKENS, "min_p": 0, **STREAM}
    assert generate() == {
        "model": "up",
        "prompt": "Once",
        "raw": True,
        "stream": True,
        "think": False,
        "options": {"num_predict": COMPLETION_TOKENS},
    }


@pytest.mark.parametrize(
    ("kind", "context", "fields", "sent"),
    [
        ("vllm", 4096, {}, None),
        ("vllm", 4096, {"front": "ollama"}, 4096),
        ("vllm", 0, {"front": "ollama"}, OPEN_END_TOKENS),
        ("llamacpp", 4096, {"front": "ollama"}, None),
        ("vllm", 4096, {"front": "ollama", "max_tokens": 9000}, 4096),
        ("vllm", 4096, {"max_tokens": 9000}, 9000),
        ("vllm", 4096, {"max_tokens": 0}, 1),
        ("vllm", 4096, {"max_tokens": 0, "extra": ECHO}, 0),
        ("openai", 4096, {"max_tokens": 0, "extra": ECHO}, 1),
        ("llamacpp", 4096, {"max_tokens": 0, "front": "ollama"}, 1),
    ],
)
def test_length(kind: Kind, context: int, fields: dict[str, Any], sent: int | None) -> None:
    assert body(kind, context, **fields).get("max_tokens") == sent
    mute = render_text(asked(**fields), kind, "up", context=context)[1].mute
    assert mute is (fields.get("max_tokens") == 0 and sent == 1)


@pytest.mark.parametrize(
    ("fields", "sent", "mute"),
    [
        ({}, COMPLETION_TOKENS, False),
        ({"front": "ollama"}, None, False),
        ({"front": "ollama", "max_tokens": 0}, 0, False),
        ({"max_tokens": 0}, 1, True),
        ({"max_tokens": 7}, 7, False),
    ],
)
def test_length_for_ollama(fields: dict[str, Any], sent: int | None, mute: bool) -> None:
    assert generate(**fields)["options"].get("num_predict") == sent
    assert render_generate(asked(**fields), "up", num_ctx=None)[1] is mute


def test_suffix_has_a_place_of_its_own_in_each() -> None:
    assert body(suffix=" end")["suffix"] == " end"
    path, rendered = render_text(asked(suffix=" end", max_tokens=3), "llamacpp", "up")
    assert path == "/infill"
    assert rendered.fields == {
        "model": "up",
        "stream": True,
        "input_prefix": "Once",
        "input_suffix": " end",
        "prompt": "",
        "n_predict": 3,
        "min_p": 0,
    }
    told = generate(suffix=" end")
    assert (told["suffix"], "raw" in told) == (" end", False)


def test_prompts_of_token_ids() -> None:
    fields: dict[str, Any] = {"prompt": "", "prompt_tokens": [1, 2, 3]}
    assert body(**fields)["prompt"] == [1, 2, 3]
    assert body("llamacpp", **fields)["prompt"] == [1, 2, 3]
    refusals: list[Callable[[], object]] = [
        lambda: generate(**fields),
        lambda: body("llamacpp", suffix="x", **fields),
        lambda: body("llamacpp", extra=ECHO, **fields),
        lambda: generate(prompt=""),
    ]
    for refused in refusals:
        with pytest.raises(BackendError) as caught:
            refused()
        assert (caught.value.kind, caught.value.status) == ("client", 400)
        assert caught.value.message.endswith(".")


def test_images_go_to_ollama_only() -> None:
    messages = [Message("user", [ImagePart("data:image/png;base64,AA=="), AudioPart("BB==", "wav")])]
    chat = Chat("m", messages, prompt="[img-0] what", front="ollama")
    assert render_generate(chat, "up", num_ctx=None)[0]["images"] == ["AA==", "BB=="]
    with pytest.raises(BackendError) as caught:
        render_text(chat, "vllm", "up")
    assert (caught.value.kind, caught.value.param) == ("client", "images")


def test_echo_logprobs_and_several_answers() -> None:
    assert body(extra=ECHO, n=2, logprobs=True, top_logprobs=3) == {
        **body(),
        "echo": True,
        "n": 2,
        "logprobs": 3,
    }
    assert body(logprobs=True)["logprobs"] == 0
    llama = body("llamacpp", extra=ECHO, logprobs=True, top_logprobs=0)
    assert (llama["n_probs"], "echo" in llama, "logprobs" in llama) == (1, False, False)
    assert generate(logprobs=True, top_logprobs=2)["top_logprobs"] == 2


def test_form_sampling_and_stops() -> None:
    schema = Format("schema", Raw(b'{"type":"array"}'))
    assert body(format=schema)["response_format"]["json_schema"]["schema"] == {"type": "array"}
    assert body("llamacpp", format=schema)["json_schema"] == {"type": "array"}
    assert body("llamacpp", format=Format("json"))["json_schema"] == {"type": "object"}
    assert generate(format=Format("json"))["format"] == "json"
    told = body(sampling=Sampling(temperature=0.5, top_k=3), stop=["a", "b", "c", "d", "e"])
    assert (told["temperature"], told["top_k"], told["stop"]) == (0.5, 3, ["a", "b", "c", "d"])
    assert len(body("llamacpp", stop=["a", "b", "c", "d", "e"])["stop"]) == 5
    assert generate(num_ctx=512, stop=["a"] * 5, max_tokens=2)["options"] == {
        "stop": ["a"] * 5,
        "num_predict": 2,
        "num_ctx": 512,
    }


def test_what_only_chats_have_is_left_out() -> None:
    extra = {"chat_template_kwargs": Raw(b'{"a":1}'), "add_generation_prompt": Raw(b"false"), "min_tokens": Raw(b"2")}
    assert body(extra=extra) == {**body(), "min_tokens": 2}


@pytest.mark.parametrize(("think", "told"), [("unset", None), ("on", True), ("off", False), ("high", "high")])
def test_thinking_of_ollama_clients(think: Any, told: object) -> None:
    assert generate(front="ollama", think=think).get("think") == told
