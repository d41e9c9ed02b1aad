"""Anthropic's client for Python."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
from anthropic import beta_async_tool

from tests.conformance.bench import PROMPT, Bench
from tests.conformance.openai_chats import LOOK, NO_CALLS, PIXEL, SAY_TRUTH, Truth, tools_limit
from tests.conformance.table import ALL, row
from tests.rig.answers import ARGUMENTS

CLIENT = "`anthropic` for Python"
MESSAGES = "POST /v1/messages"
COUNT = f"{MESSAGES}/count_tokens"
BATCHES = "/v1/messages/batches"
COUNTED = "an estimate from the text's length; no engine is asked"
TOOLS: Any = [{"name": "look", "description": "Looks.", "input_schema": LOOK}]


def ask(b: Bench, content: Any = PROMPT, **more: Any) -> dict[str, Any]:
    asked = {"model": b.model, "max_tokens": 2000, "messages": [{"role": "user", "content": content}]}
    return asked | {"thinking": {"type": "disabled"}, "extra_body": {"temperature": 0}} | more


def check(b: Bench, message: Any, *, thinking: bool) -> None:
    *thoughts, words = message.content
    b.says(words.text)
    b.thinks("".join(block.thinking for block in thoughts), asked=thinking)
    assert (message.stop_reason, message.model, message.role) == ("end_turn", b.model, "assistant")
    assert message.usage.output_tokens > 0


@row(CLIENT, "messages.create", MESSAGES)
async def whole(b: Bench) -> None:
    check(b, await b.anthropic.messages.create(**ask(b)), thinking=False)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    check(b, await b.anthropic.messages.create(**ask(b, system="Hi", thinking=thinking)), thinking=True)


@row(CLIENT, "messages.create(stream=True)", MESSAGES)
async def streamed(b: Bench) -> None:
    kinds, text = [], ""
    async for event in await b.anthropic.messages.create(**ask(b), stream=True):
        kinds.append(event.type)
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            text += event.delta.text
    b.says(text)
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])


@row(CLIENT, "messages.stream", MESSAGES)
async def helper(b: Bench) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    async with b.anthropic.messages.stream(**ask(b, thinking=thinking)) as stream:
        b.says("".join([text async for text in stream.text_stream]))
        check(b, await stream.get_final_message(), thinking=True)


@row(CLIENT, "messages.create(tools=…)", MESSAGES)
async def tools(b: Bench) -> str | None:
    asked: Any = ask(b, "call:look", tools=TOOLS)
    answer = await b.anthropic.messages.create(**asked, tool_choice={"type": "any"})
    use: Any = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": ARGUMENTS}
    if not b.real:
        assert answer.stop_reason == "tool_use"
        (use,) = (block.model_dump() for block in answer.content if block.type == "tool_use")
        assert (use["name"], use["input"]) == ("look", ARGUMENTS)
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": PROMPT}
    asked["messages"] += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    last: Any = (await b.anthropic.messages.create(**asked)).content[-1]
    b.says(last.text)
    return tools_limit(b)


@row(CLIENT, "messages.create(an image)", MESSAGES, refused={"real"})
async def image(b: Bench) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    parts = [{"type": "image", "source": source}, {"type": "text", "text": PROMPT}]
    check(b, await b.anthropic.messages.create(**ask(b, parts)), thinking=False)


@row(CLIENT, "messages.parse", MESSAGES)
async def parsed(b: Bench) -> None:
    answer = await b.anthropic.messages.parse(**ask(b, SAY_TRUTH), output_format=Truth)
    assert isinstance(answer.parsed_output, Truth)


@row(CLIENT, "messages.count_tokens", COUNT)
async def count(b: Bench) -> str:
    asked = ask(b)
    counted = await b.anthropic.messages.count_tokens(model=b.model, messages=asked["messages"])
    assert 1 <= counted.input_tokens < 40
    return COUNTED


@row(CLIENT, "messages.batches.create", f"POST {BATCHES}", refused=ALL)
async def batch(b: Bench) -> None:
    await b.anthropic.messages.batches.create(
        requests=[{"custom_id": "a", "params": {"model": b.model, "max_tokens": 9, "messages": ask(b)["messages"]}}]
    )


@row(CLIENT, "messages.batches.list", f"GET {BATCHES}", refused=ALL)
async def batch_list(b: Bench) -> None:
    await b.anthropic.messages.batches.list()


@row(CLIENT, "messages.batches.retrieve", f"GET {BATCHES}/{{id}}", refused=ALL)
async def batch_retrieve(b: Bench) -> None:
    await b.anthropic.messages.batches.retrieve("b1")


@row(CLIENT, "messages.batches.cancel", f"POST {BATCHES}/{{id}}/cancel", refused=ALL)
async def batch_cancel(b: Bench) -> None:
    await b.anthropic.messages.batches.cancel("b1")


@row(CLIENT, "messages.batches.delete", f"DELETE {BATCHES}/{{id}}", refused=ALL)
async def batch_delete(b: Bench) -> None:
    await b.anthropic.messages.batches.delete("b1")


@row(CLIENT, "messages.batches.results", f"GET {BATCHES}/{{id}}", refused=ALL)
async def batch_results(b: Bench) -> None:
    await b.anthropic.messages.batches.results("b1")


@row(CLIENT, "models.list", "GET /v1/models")
async def models(b: Bench) -> None:
    assert {model.id async for model in b.anthropic.models.list()} == {b.model, b.embedder}


@row(CLIENT, "models.retrieve", "GET /v1/models/{id}")
async def model(b: Bench) -> None:
    assert (await b.anthropic.models.retrieve(b.model)).id == b.model


@row(CLIENT, "beta.messages.create", f"{MESSAGES}?beta=true")
async def beta(b: Bench) -> None:
    check(b, await b.anthropic.beta.messages.create(**ask(b), betas=["some-beta"]), thinking=False)


@row(CLIENT, "beta.messages.create(stream=True)", f"{MESSAGES}?beta=true")
async def beta_stream(b: Bench) -> None:
    events = [event async for event in await b.anthropic.beta.messages.create(**ask(b), stream=True)]
    assert events[-1].type == "message_stop"


@row(CLIENT, "beta.messages.stream", f"{MESSAGES}?beta=true")
async def beta_helper(b: Bench) -> None:
    async with b.anthropic.beta.messages.stream(**ask(b)) as stream:
        check(b, await stream.get_final_message(), thinking=False)


@row(CLIENT, "beta.messages.parse", f"{MESSAGES}?beta=true")
async def beta_parsed(b: Bench) -> None:
    answer = await b.anthropic.beta.messages.parse(**ask(b, SAY_TRUTH), output_format=Truth)
    assert isinstance(answer.parsed_output, Truth)


@row(CLIENT, "beta.messages.tool_runner", f"{MESSAGES}?beta=true")
async def beta_runner(b: Bench) -> str | None:
    seen: list[str] = []

    @beta_async_tool
    async def look(city: str) -> str:
        """Looks.

        Args:
            city: Where.
        """
        seen.append(city)
        return PROMPT

    runner: Any = b.anthropic.beta.messages.tool_runner(**ask(b, "call:look"), tools=[look], max_iterations=3)
    last = await runner.until_done()
    b.says(last.content[-1].text)
    assert b.real or seen == [ARGUMENTS["city"]]
    return NO_CALLS if b.real else None


@row(CLIENT, "beta.messages.thread", f"{MESSAGES}?beta=true", refused=ALL)
async def beta_thread(b: Bench) -> None:
    # A client that may go on without a thread does, and then sends all of the conversation.
    asked: Any = ask(b)
    asked.pop("messages")
    free: Any = b.anthropic.beta.messages.thread(**asked, unsupported_request_behavior="continue_unthreaded")
    for _ in range(2):
        answer = await free.send({"role": "user", "content": PROMPT})
        b.says(answer.content[-1].text)
    bound: Any = b.anthropic.beta.messages.thread(**asked)
    await bound.send({"role": "user", "content": PROMPT})


@row(CLIENT, "beta.messages.count_tokens", f"{COUNT}?beta=true")
async def beta_count(b: Bench) -> str:
    asked = ask(b)
    counted = await b.anthropic.beta.messages.count_tokens(model=b.model, messages=asked["messages"])
    assert 1 <= counted.input_tokens < 40
    return COUNTED


@row(CLIENT, "Anthropic (the client that blocks)", "several of these")
async def blocking(b: Bench) -> None:
    def use() -> str:
        with anthropic.Anthropic(base_url=b.url, api_key="none", max_retries=0, timeout=60) as client:
            client.messages.create(**ask(b))
            with client.messages.stream(**ask(b)) as stream:
                return "".join(stream.text_stream)

    b.says(await asyncio.to_thread(use))
