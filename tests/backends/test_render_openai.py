from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from backends.base import BackendError
from backends.render_openai import Rendered, render
from backends.thinking import plan
from buffer.backend import Kind
from buffer.job import AudioPart, Chat, Format, ImagePart, Message, Sampling, TextPart, ToolCall

OPENAI_KINDS: list[Kind] = ["vllm", "llamacpp", "openai"]
TOOL = Raw(b'{"type":"function","function":{"name":"f","parameters":{}}}')


def rendered(kind: Kind, chat: Chat, *, context: int = 0) -> Rendered:
    return render(chat, kind, "up", plan(chat, "up", kind), context=context)


def body(kind: Kind, *messages: Message, context: int = 0, **fields: Any) -> dict[str, Any]:
    chat = Chat("m", list(messages) or [Message("user", "hi")], **fields)
    decoded: dict[str, Any] = msgspec.json.decode(rendered(kind, chat, context=context).body())
    return decoded


def test_least_body() -> None:
    assert body("vllm") == {
        "model": "up",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert body("openai") == body("vllm")
    assert body("llamacpp") == {**body("vllm"), "min_p": 0}


def test_sampling_in_each_ones_words() -> None:
    sampling = Sampling(
        temperature=0.5, top_p=0.9, top_k=20, min_p=0.1, typical_p=0.8, repeat_penalty=1.1, repeat_last_n=64,
        presence_penalty=0.2, frequency_penalty=0.3, seed=7,
    )  # fmt: skip
    common = {"temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.1, "presence_penalty": 0.2}
    common |= {"frequency_penalty": 0.3, "seed": 7}
    for kind in OPENAI_KINDS:
        assert body(kind, sampling=sampling).items() >= common.items()
    vllm, llama = body("vllm", sampling=sampling), body("llamacpp", sampling=sampling)
    assert vllm["repetition_penalty"] == 1.1
    assert not vllm.keys() & {"repeat_penalty", "repeat_last_n", "typical_p"}
    assert (llama["repeat_penalty"], llama["repeat_last_n"], llama["typical_p"]) == (1.1, 64, 0.8)
    assert "repetition_penalty" not in llama


def test_what_means_nothing_is_left_out() -> None:
    fields = body("vllm", sampling=Sampling(seed=-1, repeat_penalty=1.0), stop=[""], tool_choice=Raw(b'"auto"'))
    assert fields.keys() == body("vllm").keys()


@pytest.mark.parametrize("kind", ["vllm", "openai"])
def test_numbers_of_ollamas_clients_are_brought_into_range(kind: Kind) -> None:
    wild = Sampling(
        temperature=5, top_p=0, top_k=-1, min_p=2, presence_penalty=-3, frequency_penalty=3, repeat_penalty=0
    )
    tame = {"temperature": 2, "top_p": 1e-4, "top_k": 0, "min_p": 1, "presence_penalty": -2, "frequency_penalty": 2}
    fields = body(kind, sampling=wild, front="ollama")
    assert {name: fields[name] for name in tame} == tame
    assert "repetition_penalty" not in fields
    fields = body(kind, sampling=wild)
    assert (fields["temperature"], fields["top_p"], fields["top_k"]) == (5, 0, -1)


def test_window_of_repetition_over_everything_is_the_whole_context() -> None:
    everything = Sampling(repeat_last_n=-1)
    assert body("llamacpp", sampling=everything, front="ollama", context=4096)["repeat_last_n"] == 4096
    assert "repeat_last_n" not in body("llamacpp", sampling=everything, front="ollama")


def test_length_of_the_answer() -> None:
    assert body("vllm", max_tokens=5)["max_tokens"] == 5
    assert "max_tokens" not in body("vllm")
    assert body("vllm", max_tokens=9000, front="ollama", context=4096)["max_tokens"] == 4096
    assert body("vllm", max_tokens=9000, context=4096)["max_tokens"] == 9000
    muted = rendered("vllm", Chat("m", [Message("user", "x")], max_tokens=0, front="ollama"))
    assert (muted.fields["max_tokens"], muted.mute) == (1, True)


def test_stop_texts_beyond_four() -> None:
    stops = ["a", "", "b", "c", "d", "e", "f"]
    chat = Chat("m", [Message("user", "x")], stop=stops)
    vllm, llama = rendered("vllm", chat), rendered("llamacpp", chat)
    assert (vllm.fields["stop"], vllm.stops) == (["a", "b", "c", "d"], ["e", "f"])
    assert vllm.fields["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (llama.fields["stop"], llama.stops) == (["a", "b", "c", "d", "e", "f"], [])


def test_tools() -> None:
    fields = body("vllm", tools=[TOOL], tool_choice=Raw(b'"required"'), parallel_tool_calls=False)
    assert fields["tools"] == [msgspec.json.decode(TOOL)]
    assert (fields["tool_choice"], fields["parallel_tool_calls"]) == ("required", False)
    assert "tools" not in body("vllm", tools=[])


def test_forms_of_the_answer() -> None:
    assert body("vllm", format=Format("json"))["response_format"] == {"type": "json_object"}
    schema = Format("schema", Raw(b'{"type":"object"}'))
    assert body("llamacpp", format=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "schema", "schema": {"type": "object"}},
    }
    named = Format("schema", Raw(b"{}"), "mine", True)
    assert body("vllm", format=named)["response_format"]["json_schema"] == {
        "name": "mine",
        "schema": {},
        "strict": True,
    }


def test_number_of_answers_and_logprobs() -> None:
    assert body("vllm", n=3)["n"] == 3
    fields = body("vllm", logprobs=True, top_logprobs=2)
    assert (fields["logprobs"], fields["top_logprobs"]) == (True, 2)


def test_llama_cpp_gives_logprobs_with_tools_only_whole() -> None:
    fields = body("llamacpp", logprobs=True, tools=[TOOL])
    assert "stream" not in fields
    assert "stream_options" not in fields
    assert body("vllm", logprobs=True, tools=[TOOL])["stream"] is True


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"guided_json": b'{"type":"object"}'}, {"json": {"type": "object"}}),
        ({"guided_json": b'"{\\"type\\":\\"object\\"}"'}, {"json": {"type": "object"}}),
        ({"guided_regex": b'"a+"'}, {"regex": "a+"}),
        ({"guided_choice": b'["a","b"]'}, {"choice": ["a", "b"]}),
        ({"guided_grammar": b'"root ::= x"', "guided_decoding_backend": b'"x"'}, {"grammar": "root ::= x"}),
        ({"structured_outputs": b'{"regex":"b","json":null}', "guided_regex": b'"a"'}, {"regex": "b"}),
    ],
)
def test_older_constraints_of_vllm(extra: dict[str, bytes], expected: dict[str, Any]) -> None:
    fields = body("vllm", extra={name: Raw(value) for name, value in extra.items()})
    assert fields["structured_outputs"] == expected
    assert not any(name.startswith("guided") for name in fields)


def test_constraints_for_llama_cpp() -> None:
    assert body("llamacpp", extra={"guided_json": Raw(b"{}")})["json_schema"] == {}
    assert body("llamacpp", extra={"guided_choice": Raw(b'["a","b\\"c"]')})["grammar"] == 'root ::= "a" | "b\\"c"'
    with pytest.raises(BackendError) as caught:
        body("llamacpp", extra={"guided_regex": Raw(b'"a+"')})
    assert (caught.value.kind, caught.value.status) == ("client", 400)
    with pytest.raises(BackendError) as caught:
        body("vllm", extra={"guided_json": Raw(b'"{"')})
    assert caught.value.param == "guided_json"


def test_a_structural_tag() -> None:
    tag = b'{"type":"structural_tag","format":{}}'
    for kind in ("vllm", "openai"):
        assert body(kind, extra={"response_format": Raw(tag)})["response_format"] == msgspec.json.decode(tag)
    with pytest.raises(BackendError) as caught:
        body("llamacpp", extra={"response_format": Raw(tag)})
    assert (caught.value.kind, caught.value.status, caught.value.param) == ("client", 400, "response_format")


def test_only_what_an_engine_knows_is_passed_on() -> None:
    extra = {
        name: Raw(b"1") for name in ("min_tokens", "xtc_threshold", "logit_bias", "priority", "request_id", "nonsense")
    }
    assert body("vllm", extra=extra).keys() - body("vllm").keys() == {"min_tokens", "logit_bias"}
    assert body("llamacpp", extra=extra).keys() - body("llamacpp").keys() == {"xtc_threshold", "logit_bias"}
    options = {"mirostat": Raw(b"2"), "num_keep": Raw(b"5"), "num_ctx": Raw(b"8")}
    assert body("llamacpp", options=options).keys() - body("llamacpp").keys() == {"mirostat", "n_keep"}
    assert body("vllm", options=options).keys() == body("vllm").keys()


def test_thinking_switch_joins_the_clients_own_template_settings() -> None:
    extra = {"chat_template_kwargs": Raw(b'{"enable_thinking":true,"tone":"dry"}')}
    fields = body("vllm", think="off", extra=extra)
    assert fields["chat_template_kwargs"] == {"enable_thinking": False, "tone": "dry"}
    assert body("vllm", extra=extra)["chat_template_kwargs"] == {"enable_thinking": True, "tone": "dry"}


def test_answer_that_is_begun_is_gone_on_with() -> None:
    begun = (Message("user", "x"), Message("assistant", "It is"))
    vllm, llama = body("vllm", *begun), body("llamacpp", *begun)
    assert (vllm["continue_final_message"], vllm["add_generation_prompt"]) == (True, False)
    assert vllm["chat_template_kwargs"] == {"enable_thinking": False}
    assert "continue_final_message" not in llama
    assert llama["chat_template_kwargs"] == {"enable_thinking": False}
    called = Message("assistant", "", tool_calls=[ToolCall("a", "f", "{}")])
    assert "continue_final_message" not in body("vllm", Message("user", "x"), called)


def test_messages_of_a_tool_loop() -> None:
    calls = [ToolCall("c1", "w", '{"city":"Oslo"}'), ToolCall("c2", "now", "")]
    messages = body(
        "vllm",
        Message("user", "weather?"),
        Message("assistant", "", reasoning="hm", tool_calls=calls),
        Message("tool", "rain", tool_call_id="c1", tool_name="w"),
        Message("tool", [TextPart("a"), TextPart("b")], tool_call_id="c2"),
    )["messages"]
    assert messages[1] == {
        "role": "assistant",
        "content": "",
        "reasoning": "hm",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "w", "arguments": '{"city":"Oslo"}'}},
            {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
        ],
    }
    assert messages[2] == {"role": "tool", "content": "rain", "tool_call_id": "c1", "name": "w"}
    assert messages[3] == {"role": "tool", "content": "a\nb", "tool_call_id": "c2"}
    unknown = body("openai", Message("assistant", "x", reasoning="hm"), Message("user", "y"))["messages"][0]
    assert unknown == {"role": "assistant", "content": "x"}


def test_parts() -> None:
    picture = ImagePart("data:image/png;base64,AA==")
    content = body("vllm", Message("user", [TextPart("a"), picture, AudioPart("BB==", "wav")]))["messages"][0][
        "content"
    ]
    assert content == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        {"type": "input_audio", "input_audio": {"data": "BB==", "format": "wav"}},
    ]
    assert body("vllm", Message("user", [TextPart("a"), TextPart("b")]))["messages"][0]["content"] == "a\nb"


def test_system_message_first_where_the_template_wants_it() -> None:
    chat = Chat("m", [Message("system", "A"), Message("user", "x"), Message("system", "B"), Message("user", "y")])
    new = render(chat, "vllm", "Qwen3.5-9B", plan(chat, "Qwen3.5-9B", "vllm")).fields["messages"]
    assert [(message["role"], message["content"]) for message in new] == [
        ("system", "A\n\nB"),
        ("user", "x"),
        ("user", "y"),
    ]
    old = render(chat, "vllm", "Qwen3-14B", plan(chat, "Qwen3-14B", "vllm")).fields["messages"]
    assert [message["role"] for message in old] == ["system", "user", "system", "user"]
