"""Agents' APIs over a real server, with their official clients, in front of every kind of back end."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import httpx
import openai
import pytest

from buffer.backend import Kind
from buffer.job import Finish, Reasoning, ToolDelta
from tests.gateway.agents import PATHS, body, clients
from tests.gateway.rig import MODEL, PLAIN, Wire, rig
from tests.gateway.test_end_to_end import MODELS, house
from tests.rig.engine import expected

WORDS = "marker:abc words:4 thoughts:2"
THOUGHTS = "thought 1 thought 2 "


@pytest.mark.parametrize("kind", MODELS)
async def test_words_and_thinking_in_front_of_each_kind_of_back_end(kind: Kind) -> None:
    async with house(kind) as h, clients(h.url) as (claude, gpt):
        await _claude_thinks(claude, MODELS[kind])
        await _gpt_thinks(gpt, MODELS[kind])
        await h.quiet()


async def _claude_thinks(claude: anthropic.AsyncAnthropic, model: str) -> None:
    asked: Any = {"model": model, "max_tokens": 1000, "messages": [{"role": "user", "content": WORDS}], "system": "Hi"}
    for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}):
        whole = await claude.messages.create(**asked, thinking=thinking)
        async with claude.messages.stream(**asked, thinking=thinking) as stream:
            text = "".join([text async for text in stream.text_stream])
            streamed = await stream.get_final_message()
        assert text == expected(WORDS)
        for message in (whole, streamed):
            *thoughts, words = message.content
            assert words.type == "text"
            assert words.text == expected(WORDS)
            assert [block.thinking for block in thoughts if block.type == "thinking"] == (
                [THOUGHTS] if thinking["type"] == "enabled" else []
            )
            assert (message.stop_reason, message.model, message.role) == ("end_turn", model, "assistant")
            assert message.usage.input_tokens > 0
            assert message.usage.output_tokens >= 5
    cut = await claude.messages.create(**asked | {"max_tokens": 3})
    assert cut.stop_reason == "max_tokens"


async def _gpt_thinks(gpt: openai.AsyncOpenAI, model: str) -> None:
    for effort in ("medium", "none"):
        asked: Any = {"model": model, "input": WORDS, "instructions": "Hi", "reasoning": {"effort": effort}}
        whole = await gpt.responses.create(**asked)
        async with gpt.responses.stream(**asked) as stream:
            kinds = [event.type async for event in stream]
            streamed = await stream.get_final_response()
        raw = [event async for event in await gpt.responses.create(**asked, stream=True)]
        assert kinds[:2] == ["response.created", "response.in_progress"]
        assert kinds[-1] == raw[-1].type == "response.completed"
        assert "".join(e.delta for e in raw if e.type == "response.output_text.delta") == expected(WORDS)
        for response in (whole, streamed):
            assert response.output_text == expected(WORDS)
            found = [
                "".join(part.text for part in item.summary) for item in response.output if item.type == "reasoning"
            ]
            assert found == ([THOUGHTS] if effort == "medium" else [])
            assert (response.status, response.model, response.instructions) == ("completed", model, "Hi")
            assert response.usage
            assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    cut = await gpt.responses.create(**asked, max_output_tokens=3)
    assert cut.status == "incomplete"
    assert cut.incomplete_details
    assert cut.incomplete_details.reason == "max_output_tokens"


async def test_a_cut_prompt_and_a_forced_tool_in_the_words_of_vllm() -> None:
    async with house("vllm") as h, clients(h.url) as (claude, gpt):
        tools: Any = [{"name": "look", "input_schema": {"type": "object"}}]
        await claude.messages.create(
            model=MODELS["vllm"],
            max_tokens=200_000,
            messages=[{"role": "user", "content": "x"}],
            tools=tools,
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            stop_sequences=["END"],
            extra_body={"temperature": 0.3, "top_k": 5},
            timeout=20,
        )
        told = h.engines["vllm"].requests[-1].json()
        assert (told["tool_choice"], told["parallel_tool_calls"], told["stop"]) == ("required", False, ["END"])
        assert (told["max_tokens"], told["temperature"], told["top_k"]) == (32768, 0.3, 5)
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        await gpt.responses.create(
            model=MODELS["vllm"],
            input="x",
            text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}},
            metadata={"a": "b"},
        )
        told = h.engines["vllm"].requests[-1].json()
        assert told["response_format"]["json_schema"] == {"name": "n", "schema": schema, "strict": True}
        assert not {"metadata", "responses", "tools"} & told.keys()
        await h.quiet()


async def test_what_is_counted_and_what_the_headers_say() -> None:
    async with rig() as r:
        for path, api in zip(PATHS, ("anthropic", "responses"), strict=True):
            for stream in (False, True):
                async with asyncio.TaskGroup() as group:
                    sent = group.create_task(r.client.post(path, json=body(path, stream=stream)))
                    await r.hands.answer("hi")
                got = sent.result()
                kind = "text/event-stream" if stream else "application/json; charset=utf-8"
                assert got.headers["content-type"] == kind
                assert got.headers["x-doublebuffer-lane"] == "fast"
                assert got.headers["x-doublebuffer-id"] in got.text
                if stream:
                    assert got.headers["cache-control"] == "no-cache"
            assert r.metric(f'requests_total{{api="{api}",lane="fast",outcome="ok"}}') == 2


async def test_a_model_that_cannot_think_is_asked_in_vain() -> None:
    async with rig() as r:
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
        for path, more in zip(PATHS, (thinking, {"reasoning": {"effort": "high"}}), strict=True):
            async with asyncio.TaskGroup() as group:
                sent = group.create_task(r.client.post(path, json=body(path, PLAIN, **more)))
                await r.hands.answer("hi")
            assert sent.result().status_code == 200
            assert sent.result().headers["x-doublebuffer-lane"] == "fast"


async def test_pieces_reach_the_client_as_they_come() -> None:
    async with rig() as r:
        for path, thought, word in (
            (PATHS[0], b"thinking_delta", b"text_delta"),
            (PATHS[1], b"summary_text.delta", b"output_text.delta"),
        ):
            wire = await Wire.post(r.port, path, body(path, stream=True), "Connection: close")
            job = await r.hands.take()
            r.hands.say(job, Reasoning("hm"))
            await wire.until(thought)
            r.hands.say(job, "so")
            await wire.until(word)
            r.hands.say(job, ToolDelta(0, "c", "f", "{}"), Finish("tool_calls"))
            await r.hands.end(job)
            rest = await wire.rest()
            assert (b"message_stop" if path == PATHS[0] else b"response.completed") in rest


async def test_tokens_are_counted_by_estimate_and_cost_no_engine_anything() -> None:
    async with rig() as r, clients(r.url) as (claude, _):
        short = await claude.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "Hello"}])
        long = await claude.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "word " * 800}])
        assert 1 <= short.input_tokens < 20
        assert 900 <= long.input_tokens <= 1100
        with pytest.raises(anthropic.NotFoundError):
            await claude.messages.count_tokens(model="nobody", messages=[{"role": "user", "content": "Hello"}])
        with pytest.raises(anthropic.BadRequestError) as refused:
            await claude.messages.count_tokens(model=MODEL, messages=[])
        assert refused.value.body["error"]["message"]  # type: ignore[index]
        assert (await r.lanes.depths())["fast"].waiting == 0


async def test_the_lists_of_models_suit_a_claude_too() -> None:
    async with rig() as r, clients(r.url) as (claude, _):
        assert {model.id async for model in claude.models.list()} == {MODEL, PLAIN}


async def test_a_query_and_a_beta_change_nothing() -> None:
    async with rig() as r, httpx.AsyncClient(base_url=r.url) as client, asyncio.TaskGroup() as group:
        sent = group.create_task(
            client.post("/v1/messages?beta=true", json=body(PATHS[0]), headers={"anthropic-beta": "x,y"})
        )
        await r.hands.answer("hi")
        assert (await sent).json()["content"][0]["text"] == "hi"
