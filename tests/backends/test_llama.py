"""The real llama.cpp server, with a small Qwen3 that thinks."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from buffer.job import Content, Finish, Format, Message, Origin, Reasoning, ToolDelta, Usage
from tests.backends.rig import Outcome, backend, chat, run
from tests.rig.llama import LlamaServer


async def ask(server: LlamaServer, text: str = "Tell me about the sea.", **fields: object) -> Outcome:
    async with backend(server.url, "llamacpp") as of:
        return await run(of, chat(text, **fields), model=server.model)


async def test_probe(llama_server: LlamaServer) -> None:
    async with backend(llama_server.url, "llamacpp") as of:
        found = await of.probe()
    assert (found.slots, found.simulated, found.doublebuffer) == (llama_server.slots, False, False)
    assert (found.running, found.waiting) == (0, 0)
    model = found.models[0]
    assert (model.id, model.context_length) == (llama_server.model, llama_server.context)
    assert model.parameter_count > 0
    assert {"completion", "thinking"} <= set(model.capabilities)


@pytest.mark.parametrize("think", ["unset", "on", "high"])
async def test_thinking(llama_server: LlamaServer, think: str) -> None:
    outcome = await ask(llama_server, think=think)
    assert outcome.error is None
    assert outcome.thought
    assert outcome.said
    assert isinstance(outcome.events[0], Origin)
    assert outcome.events[-2] == Finish("stop")
    counts = outcome.events[-1]
    assert isinstance(counts, Usage)
    assert counts.prompt > 0
    assert counts.completion > 0
    assert counts.prompt_ns
    assert counts.completion_ns
    # Words come as they are made, in many reads.
    assert len(outcome.reads) > 5


async def test_no_thinking(llama_server: LlamaServer) -> None:
    outcome = await ask(llama_server, think="off")
    assert (outcome.kind, outcome.thought) == ("ok", "")
    assert outcome.said
    assert "think>" not in outcome.said


async def test_length(llama_server: LlamaServer) -> None:
    outcome = await ask(llama_server, max_tokens=3, extra={"ignore_eos": Raw(b"true")})
    assert outcome.events[-2] == Finish("length")
    assert outcome.events[-1].completion == 3  # type: ignore[union-attr]


async def test_the_same_seed_says_the_same(llama_server: LlamaServer) -> None:
    said = []
    for _ in range(2):
        asked = chat("Tell me.", think="off", max_tokens=30)
        asked.sampling.seed = 7
        asked.sampling.temperature = 0
        async with backend(llama_server.url, "llamacpp") as of:
            said.append((await run(of, asked, model=llama_server.model)).said)
    assert said[0] == said[1] != ""


async def test_beginning_is_gone_on_with(llama_server: LlamaServer) -> None:
    async with backend(llama_server.url, "llamacpp") as of:
        asked = chat("Tell me about the sea.", max_tokens=40)
        asked.messages.append(Message("assistant", "The quiet harbor"))
        outcome = await run(of, asked, model=llama_server.model)
    assert (outcome.kind, outcome.thought) == ("ok", "")
    assert outcome.said
    assert not outcome.said.startswith("The quiet harbor")


async def test_several_answers(llama_server: LlamaServer) -> None:
    outcome = await ask(llama_server, think="off", n=3, max_tokens=20)
    assert outcome.error is None
    assert {event.index for event in outcome.events if isinstance(event, Content)} == {0, 1, 2}
    assert len([event for event in outcome.events if isinstance(event, Finish)]) == 3


async def test_structured_answer(llama_server: LlamaServer) -> None:
    schema = Raw(b'{"type":"object","properties":{"a":{"enum":["x"]}},"required":["a"],"additionalProperties":false}')
    outcome = await ask(llama_server, think="off", format=Format("schema", schema))
    assert outcome.kind == "ok"
    assert "".join(outcome.said.split()) == '{"a":"x"}'


async def test_choice(llama_server: LlamaServer) -> None:
    outcome = await ask(llama_server, think="off", extra={"guided_choice": Raw(b'["yes","no"]')})
    assert outcome.said in ("yes", "no")


async def test_logprobs_with_tools_are_read_whole(llama_server: LlamaServer) -> None:
    tool = Raw(b'{"type":"function","function":{"name":"f","description":"x","parameters":{"type":"object"}}}')
    outcome = await ask(llama_server, think="off", tools=[tool], logprobs=True, top_logprobs=1, max_tokens=20)
    assert outcome.error is None
    assert len(outcome.reads) == 1
    assert any(isinstance(event, Content | ToolDelta | Reasoning) for event in outcome.events)


async def test_prompt_that_is_too_long(llama_server: LlamaServer) -> None:
    words = "the quiet harbor " * 600
    outcome = await ask(llama_server, words)
    assert outcome.error is not None
    assert (outcome.kind, outcome.error.status, outcome.error.code) == ("client", 400, "context_length_exceeded")
    async with backend(llama_server.url, "llamacpp") as of:
        asked = chat(front="ollama", max_tokens=5)
        asked.messages = [Message("user", words), Message("assistant", "Yes."), Message("user", "Tell me.")]
        outcome = await run(of, asked, model=llama_server.model)
    assert outcome.error is None


async def test_leaving_stops_the_engine(llama_server: LlamaServer) -> None:
    async with backend(llama_server.url, "llamacpp") as of:
        asked = chat("Tell me about the sea.", max_tokens=900, extra={"ignore_eos": Raw(b"true")})
        stream = of.chat(asked, upstream_model=llama_server.model, request_id="r")
        await anext(stream)
        assert await asyncio.to_thread(llama_server.busy_slots) == 1
        await stream.aclose()
        async with asyncio.timeout(1):
            while await asyncio.to_thread(llama_server.busy_slots):
                await asyncio.sleep(0.02)
