"""A tool round of each agents' API in front of the real llama.cpp server, which checks what it is sent."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from buffer.backend import BackendSpec
from buffer.settings import Settings
from buffer.store import open_store
from gateway.app import create_app
from tests.gateway.agents import clients
from tests.gateway.rig import served
from tests.rig.llama import LlamaServer
from worker.runner import Worker

LOOK = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.timeout(120)
async def test_a_tool_round_in_front_of_llama(llama_server: LlamaServer) -> None:
    settings = Settings(backends=[BackendSpec(name="llama", kind="llamacpp", url=llama_server.url)])
    store = await open_store(None, prefix=f"t-{secrets.token_hex(6)}")
    stop = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group, served(create_app(settings, store)) as port:
            group.create_task(Worker(settings, store).run(stop))
            async with clients(f"http://127.0.0.1:{port}") as (claude, gpt):
                await _claude(claude, llama_server.model)
                await _gpt(gpt, llama_server.model)
            stop.set()
    finally:
        await store.aclose()


async def _claude(claude: Any, model: str) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Oslo"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "rain"}]}
    asked = {
        "model": model,
        "max_tokens": 32,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": LOOK}],
        "messages": [
            {"role": "user", "content": "What does the sailor do?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "x"},
                    call,
                ],
            },
            {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
        ],
    }
    whole = await claude.messages.create(**asked, thinking={"type": "disabled"}, extra_body={"temperature": 0})
    assert whole.stop_reason in {"end_turn", "max_tokens"}
    assert whole.content[-1].text
    assert whole.usage.input_tokens + whole.usage.cache_read_input_tokens > 20
    async with claude.messages.stream(**asked, thinking={"type": "disabled"}, extra_body={"temperature": 0}) as stream:
        streamed = await stream.get_final_message()
    assert streamed.content[-1].text == whole.content[-1].text
    async with claude.messages.stream(**asked, thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
        assert (await stream.get_final_message()).content[0].type == "thinking"


async def _gpt(gpt: Any, model: str) -> None:
    asked = {
        "model": model,
        "max_output_tokens": 32,
        "temperature": 0,
        "instructions": "Be brief.",
        "reasoning": {"effort": "none"},
        "tools": [{"type": "function", "name": "look", "parameters": LOOK, "strict": False}],
        "input": [
            {"role": "developer", "content": "And kind."},
            {"role": "user", "content": "What does the sailor do?"},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"city":"Oslo"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        ],
    }
    whole = await gpt.responses.create(**asked)
    assert whole.output_text
    assert whole.usage.input_tokens > 20
    async with gpt.responses.stream(**asked) as stream:
        async for event in stream:
            last = event
    assert last.response.output_text == whole.output_text
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    form = {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}
    formed = await gpt.responses.create(**asked | {"tools": [], "text": form})
    assert formed.output_text.lstrip().startswith("{")
