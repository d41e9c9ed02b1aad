"""OpenAI's client for Python: chats and completions."""

from __future__ import annotations

import json
from typing import Any

import pydantic

from tests.conformance.bench import PROMPT, Bench
from tests.conformance.table import ALL, row
from tests.rig.answers import ARGUMENTS

CLIENT = "`openai` for Python"
CHATS = "POST /v1/chat/completions"
STORED = "/v1/chat/completions/{id}"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LOOK = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": LOOK}}]

CALL: Any = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city":"Oslo"}'}}


class Truth(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    ok: bool


NO_CALLS = "its model knows no tools; that a conversation with calls reaches it is checked"
NOT_FORCED = "no tool can be forced: Ollama knows no `tool_choice`, and the model decides"
SAY_TRUTH = 'say:{"ok":true}'


def ask(b: Bench, text: str = PROMPT, **more: Any) -> dict[str, Any]:
    return {
        "model": b.model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 400,
        "temperature": 0,
        **more,
    }


def tools_limit(b: Bench) -> str | None:
    return {"real": NO_CALLS, "ollama": NOT_FORCED}.get(b.key)


def off(b: Bench, text: str = PROMPT, **more: Any) -> dict[str, Any]:
    """The same without thinking."""
    return ask(b, text, reasoning_effort="none", **more)


@row(CLIENT, "chat.completions.create", CHATS)
async def whole(b: Bench) -> None:
    for effort in ("none", "medium"):
        answer = await b.openai.chat.completions.create(**ask(b, reasoning_effort=effort))
        (choice,) = answer.choices
        b.says(choice.message.content)
        b.thinks(getattr(choice.message, "reasoning_content", None), asked=effort != "none")
        assert (answer.object, answer.model, choice.finish_reason) == ("chat.completion", b.model, "stop")
        assert answer.usage
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


@row(CLIENT, "chat.completions.create(stream=True)", CHATS)
async def streamed(b: Bench) -> None:
    stream = await b.openai.chat.completions.create(
        **ask(b, reasoning_effort="medium"), stream=True, stream_options={"include_usage": True}
    )
    words, thoughts, reasons, usages, ids = "", "", [], [], set()
    async for chunk in stream:
        ids.add((chunk.id, chunk.created, chunk.model))
        usages += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            words += choice.delta.content or ""
            thoughts += getattr(choice.delta, "reasoning_content", None) or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    b.says(words)
    b.thinks(thoughts)
    assert reasons == ["stop"]
    assert len(usages) == 1
    assert len(ids) == 1
    plain = await b.openai.chat.completions.create(**off(b), stream=True)
    chunks = [chunk async for chunk in plain]
    assert not [chunk for chunk in chunks if chunk.usage]
    b.says("".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices))


@row(CLIENT, "chat.completions.create(tools=…)", CHATS)
async def tools(b: Bench) -> str | None:
    messages: Any = [{"role": "user", "content": "call:look"}]
    asked = off(b, tools=TOOLS)
    answer = await b.openai.chat.completions.create(**asked | {"messages": messages}, tool_choice="required")
    (choice,) = answer.choices
    call = CALL
    if not b.real:
        assert choice.finish_reason == "tool_calls"
        (call,) = (told.model_dump() for told in choice.message.tool_calls or ())
        assert call["function"]["name"] == "look"
        assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    messages.append({"role": "assistant", "content": choice.message.content, "tool_calls": [call]})
    asked["messages"] = [*messages, {"role": "tool", "tool_call_id": call["id"], "content": PROMPT}]
    b.says((await b.openai.chat.completions.create(**asked)).choices[0].message.content)
    return tools_limit(b)


@row(CLIENT, "chat.completions.create(tools=…, stream=True)", CHATS)
async def streamed_tools(b: Bench) -> str | None:
    stream = await b.openai.chat.completions.create(
        **off(b, "call:look"), tools=TOOLS, tool_choice={"type": "function", "function": {"name": "look"}}, stream=True
    )
    name, arguments, reason = "", "", ""
    async for chunk in stream:
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or ():
                assert call.index == 0
                assert call.function
                name += call.function.name or ""
                arguments += call.function.arguments or ""
    if not b.real:
        assert (name, reason) == ("look", "tool_calls")
        assert json.loads(arguments) == ARGUMENTS
    return tools_limit(b)


@row(CLIENT, "chat.completions.create(n=2)", CHATS)
async def several(b: Bench) -> None:
    answer = await b.openai.chat.completions.create(**off(b), n=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        b.says(choice.message.content)


@row(CLIENT, "chat.completions.create(logprobs=True)", CHATS)
async def logprobs(b: Bench) -> None:
    answer = await b.openai.chat.completions.create(**off(b), logprobs=True, top_logprobs=2)
    (choice,) = answer.choices
    assert choice.logprobs
    b.says("".join(token.token for token in choice.logprobs.content or ()))


@row(CLIENT, "chat.completions.create(six stop texts)", CHATS)
async def stops(b: Bench) -> None:
    answer = await b.openai.chat.completions.create(**off(b), stop=["K1", "K2", "K3", "K4", "K5", " 3"])
    (choice,) = answer.choices
    assert choice.finish_reason == "stop"
    if not b.real:
        assert (choice.message.content or "").startswith("abc 1 2")


@row(CLIENT, "chat.completions.create(an image)", CHATS, refused={"real"})
async def image(b: Bench) -> None:
    parts = [
        {"type": "text", "text": PROMPT},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    answer = await b.openai.chat.completions.create(**off(b) | {"messages": [{"role": "user", "content": parts}]})
    b.says(answer.choices[0].message.content)


@row(CLIENT, "chat.completions.parse", CHATS)
async def parsed(b: Bench) -> None:
    answer = await b.openai.chat.completions.parse(**off(b, SAY_TRUTH), response_format=Truth)
    assert isinstance(answer.choices[0].message.parsed, Truth)


@row(CLIENT, "chat.completions.stream", CHATS)
async def helper(b: Bench) -> None:
    async with b.openai.chat.completions.stream(**off(b)) as stream:
        kinds = {event.type async for event in stream}
        final = await stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    b.says(final.choices[0].message.content)


@row(CLIENT, "chat.completions.with_raw_response.create", CHATS)
async def raw(b: Bench) -> None:
    answer = await b.openai.chat.completions.with_raw_response.create(
        **off(b), extra_headers={"X-Request-Id": "my-request"}
    )
    assert answer.headers["x-request-id"] == "my-request"
    assert answer.headers["content-type"].startswith("application/json")
    b.says(answer.parse().choices[0].message.content)


@row(CLIENT, "chat.completions.with_streaming_response.create", CHATS)
async def raw_stream(b: Bench) -> None:
    async with b.openai.chat.completions.with_streaming_response.create(**off(b), stream=True) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line async for line in answer.iter_lines()]
    assert lines[-2:] == ["data: [DONE]", ""] or lines[-1] == "data: [DONE]"


@row(CLIENT, "chat.completions.list", "GET /v1/chat/completions", refused=ALL)
async def stored_list(b: Bench) -> None:
    await b.openai.chat.completions.list()


@row(CLIENT, "chat.completions.retrieve", f"GET {STORED}", refused=ALL)
async def stored(b: Bench) -> None:
    await b.openai.chat.completions.retrieve("chatcmpl-1")


@row(CLIENT, "chat.completions.update", f"POST {STORED}", refused=ALL)
async def stored_update(b: Bench) -> None:
    await b.openai.chat.completions.update("chatcmpl-1", metadata={"a": "b"})


@row(CLIENT, "chat.completions.delete", f"DELETE {STORED}", refused=ALL)
async def stored_delete(b: Bench) -> None:
    await b.openai.chat.completions.delete("chatcmpl-1")


@row(CLIENT, "chat.completions.messages.list", f"GET {STORED}/messages", refused=ALL)
async def stored_messages(b: Bench) -> None:
    await b.openai.chat.completions.messages.list("chatcmpl-1")
