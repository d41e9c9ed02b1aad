from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from backends.base import BackendError
from backends.render_ollama import render_ollama
from backends.thinking import plan
from buffer.job import AudioPart, Chat, Format, ImagePart, Message, Sampling, TextPart, ToolCall

TOOLS = [Raw(b'{"type":"function","function":{"name":"%b"}}' % name) for name in (b"f", b"g")]


def body(*messages: Message, num_ctx: int | None = None, **fields: Any) -> dict[str, Any]:
    chat = Chat("m", list(messages) or [Message("user", "hi")], **fields)
    rendered = render_ollama(chat, "up", plan(chat, "up", "ollama"), num_ctx=num_ctx)
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(rendered))
    return decoded


def test_least_body() -> None:
    assert body() == {"model": "up", "messages": [{"role": "user", "content": "hi"}], "stream": True, "options": {}}


def test_options() -> None:
    sampling = Sampling(temperature=0.5, top_k=20, repeat_penalty=1.1, seed=-1)
    options = body(sampling=sampling, max_tokens=0, stop=["a"] * 6, options={"mirostat": Raw(b"2")})["options"]
    assert options == {
        "temperature": 0.5,
        "top_k": 20,
        "repeat_penalty": 1.1,
        "seed": -1,
        "num_predict": 0,
        "stop": ["a"] * 6,
        "mirostat": 2,
    }


def test_clients_do_not_make_the_model_load_anew() -> None:
    wishes = {name: Raw(b"9") for name in ("num_ctx", "num_gpu", "num_thread", "num_batch", "num_keep", "mode")}
    assert body(options=wishes, num_ctx=4096)["options"] == {"num_ctx": 4096, "num_keep": 9}
    assert body(options=wishes)["options"] == {"num_ctx": 9, "num_keep": 9}


@pytest.mark.parametrize("keep_alive", [b"300", b"-1", b'"5m"', b"0"])
def test_keep_alive_goes_on_as_it_is(keep_alive: bytes) -> None:
    assert body(keep_alive=Raw(keep_alive))["keep_alive"] == msgspec.json.decode(keep_alive)


def test_forms_of_the_answer() -> None:
    assert body(format=Format("json"))["format"] == "json"
    assert body(format=Format("schema", Raw(b'{"type":"object"}')))["format"] == {"type": "object"}
    assert body(extra={"structured_outputs": Raw(b'{"json":{"a":1}}')})["format"] == {"a": 1}
    assert body(extra={"guided_json_object": Raw(b"true")})["format"] == "json"
    with pytest.raises(BackendError) as caught:
        body(extra={"guided_regex": Raw(b'"a"')})
    assert (caught.value.kind, caught.value.status, caught.value.param) == ("client", 400, "structured_outputs")
    with pytest.raises(BackendError, match="structural_tag"):
        body(extra={"response_format": Raw(b'{"type":"structural_tag"}')})


def test_tools() -> None:
    assert [tool["function"]["name"] for tool in body(tools=TOOLS)["tools"]] == ["f", "g"]
    assert "tools" not in body(tools=[])
    assert "tools" not in body(tools=TOOLS, tool_choice=Raw(b'"none"'))
    named = Raw(b'{"type":"function","function":{"name":"g"}}')
    assert [tool["function"]["name"] for tool in body(tools=TOOLS, tool_choice=named)["tools"]] == ["g"]
    assert len(body(tools=TOOLS, tool_choice=Raw(b'"required"'))["tools"]) == 2


def test_messages() -> None:
    calls = [ToolCall("c1", "w", '{"b":1,"a":2}'), ToolCall("c2", "n", "")]
    messages = body(
        Message("user", [TextPart("what"), ImagePart("data:image/png;base64,AA=="), TextPart("is this")]),
        Message("assistant", "", reasoning="hm", tool_calls=calls),
        Message("tool", "rain", tool_call_id="c1", tool_name="w"),
        Message("user", [AudioPart("BB==", "wav")], name="ann"),
    )["messages"]
    assert messages[0] == {"role": "user", "content": "what\nis this", "images": ["AA=="]}
    assert messages[1] == {
        "role": "assistant",
        "content": "",
        "thinking": "hm",
        "tool_calls": [
            {"id": "c1", "function": {"index": 0, "name": "w", "arguments": {"b": 1, "a": 2}}},
            {"id": "c2", "function": {"index": 1, "name": "n", "arguments": {}}},
        ],
    }
    assert messages[2] == {"role": "tool", "content": "rain", "tool_call_id": "c1", "tool_name": "w"}
    assert messages[3] == {"role": "user", "content": "", "images": ["BB=="]}


@pytest.mark.parametrize("arguments", ["{broken", "[1]", "3"])
def test_arguments_that_are_no_object(arguments: str) -> None:
    message = Message("assistant", "", tool_calls=[ToolCall("c", "f", arguments)])
    assert body(message)["messages"][0]["tool_calls"][0]["function"]["arguments"] == {}


def test_order_of_an_objects_keys_stays() -> None:
    message = Message("assistant", "", tool_calls=[ToolCall("c", "f", '{"z":1,"a":2}')])
    chat = Chat("m", [message])
    rendered = msgspec.json.encode(render_ollama(chat, "up", plan(chat, "up", "ollama"), num_ctx=None))
    assert b'{"z":1,"a":2}' in rendered


def test_links_cannot_be_fetched() -> None:
    with pytest.raises(BackendError) as caught:
        body(Message("user", [ImagePart("https://127.0.0.1/x.png")]))
    assert caught.value.kind == "client"


def test_rest() -> None:
    fields = body(logprobs=True, top_logprobs=3, truncate=False, think="off")
    assert (fields["logprobs"], fields["top_logprobs"], fields["truncate"], fields["think"]) == (True, 3, False, False)
