"""Prompts read in parts: by a simulated vLLM, by a real llama.cpp, and by servers that do not play along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw

from backends import beginning as beginning_module
from backends.base import Backend, BackendError, Beginning
from backends.telling import idle_slots, vllm_question
from buffer.backend import Kind
from buffer.job import Chat, Message, Sampling, Usage
from tests.backends.rig import backend, closed_soon, run
from tests.rig.connection import Recorded
from tests.rig.llama import LlamaServer, run_llama
from tests.rig.script import DONE, Status, Word, finish
from tests.rig.scripted import Scripted
from tests.simulate.serving import served

SIMULATED = "simulated-qwen3:14b"
WORDS = " ".join(f"word{n}" for n in range(220))
FEWER = "hello there " * 270
"""Such that a chat of the tiny model has room for it, and little more."""
GREEDY = Sampling(temperature=0)


def ask(text: str = WORDS, **fields: Any) -> Chat:
    return Chat("m", [Message("user", text)], think="off", sampling=GREEDY, max_tokens=12, **fields)


async def read_in_parts(of: Backend, chat: Chat, model: str, *parts: float) -> tuple[str, Usage]:
    """What is answered to a chat of whose prompt these shares were read before."""
    beginning = await of.beginning(chat, upstream_model=model)
    assert beginning is not None
    try:
        for part in parts:
            await beginning.read(round(beginning.tokens * part))
        said, usage = "", None
        async for events in of.chat(chat, upstream_model=model, request_id="r", beginning=beginning):
            said += "".join(getattr(event, "text", "") for event in events)
            usage = next((event for event in events if isinstance(event, Usage)), usage)
        assert usage is not None
        assert usage.prompt == beginning.tokens
        return said, usage
    finally:
        beginning.close()


async def test_a_simulated_vllm() -> None:
    async with served() as url, backend(url) as of:
        assert not of.splits
        found = await of.probe()
        assert found.prefix_caching
        assert of.splits
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
        chat = ask(tools=tools)
        said, usage = await read_in_parts(of, chat, SIMULATED, 0.4, 0.8)
        assert usage.cached == round(usage.prompt * 0.8) // 16 * 16
        assert said == (await run(of, chat, model=SIMULATED)).said
        literal = Chat("m", [], prompt=WORDS, max_tokens=12)
        assert (await read_in_parts(of, literal, SIMULATED, 0.8))[1].cached


@pytest.fixture(scope="module")
def llama() -> Any:
    with run_llama(slots=3, context=1024) as server:
        yield server


@pytest.mark.parametrize("think", ["off", "on"])
async def test_a_real_llama_cpp(llama: LlamaServer, think: Any) -> None:
    async with backend(llama.url, "llamacpp") as of:
        await of.probe()
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
        for number, chat in enumerate((ask(f"{think} {FEWER}"), ask(f"{think} {FEWER}"[:1500], tools=tools))):
            chat.think, chat.extra = think, {}
            said, usage = await read_in_parts(of, chat, llama.model, 0.3, 0.6, 0.9)
            whole = await run(of, chat, model=llama.model)
            assert said == whole.thought + whole.said
            assert usage.cached is not None
            assert usage.cached >= round(usage.prompt * 0.9), number


async def test_each_of_two_prompts_has_a_slot_of_its_own(llama: LlamaServer) -> None:
    async with backend(llama.url, "llamacpp") as of:
        await of.probe()
        beginnings = [await of.beginning(ask(f"{name} {FEWER}"), upstream_model=llama.model) for name in "ab"]
        slots = {one.place["id_slot"] for one in beginnings if one is not None}  # type: ignore[attr-defined]
        assert slots == {1, 2}
        third = await of.beginning(ask(FEWER), upstream_model=llama.model)
        assert third is not None
        assert await of.beginning(ask(FEWER), upstream_model=llama.model) is None, "no slot is left"
        third.close()
        assert await of.beginning(ask(FEWER), upstream_model=llama.model) is not None


async def test_with_one_slot_or_no_memory_prompts_go_whole() -> None:
    with run_llama(slots=1) as server:
        async with backend(server.url, "llamacpp") as of:
            await of.probe()
            assert not of.splits
            assert await of.beginning(ask(), upstream_model=server.model) is None
    kinds: list[Kind] = ["openai", "ollama"]
    async with served() as url:
        for kind in kinds:
            async with backend(url, kind) as of:
                await of.probe()
                assert not of.splits
                assert await of.beginning(ask(), upstream_model=SIMULATED) is None


@pytest.mark.parametrize(
    "chat",
    [
        ask(n=2),
        ask("word " * 40_000),
        ask(extra={"truncate_prompt_tokens": Raw(b"100")}),
        Chat("m", [], prompt=WORDS, extra={"echo": Raw(b"true")}),
    ],
)
async def test_what_goes_whole(chat: Chat) -> None:
    async with served() as url, backend(url) as of:
        await of.probe()
        assert await of.beginning(chat, upstream_model=SIMULATED) is None


METRICS = 'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",num_gpu_blocks="1000"} 1.0\n'
TOKENS = {"count": 100, "max_model_len": 1000, "tokens": list(range(100))}
READ = {"choices": [{"index": 0, "text": "x", "finish_reason": "length"}]}
Answers = dict[str, list[Any]]


@asynccontextmanager
async def vllm(answers: Answers) -> AsyncIterator[tuple[Scripted, Backend, list[str]]]:
    """A server that answers each path in turn, the last answer again and again; and the paths that it was asked."""
    asked: list[str] = []

    def judge(path: str, request: Recorded) -> Any:
        if path not in answers:
            return None
        asked.append(path)
        given = answers[path]
        return given.pop(0) if len(given) > 1 else given[0]

    async with Scripted("openai", kind="vllm", judge=judge) as engine, backend(engine.url, first_s=5.0) as of:
        engine.pages["/metrics"] = Status(200, METRICS, "text/plain")
        await of.probe()
        assert of.splits
        yield engine, of, asked


async def begun(of: Backend) -> Beginning:
    beginning = await of.beginning(ask(), upstream_model="m-oai")
    assert beginning is not None
    return beginning


async def test_an_engine_that_tells_no_tokens_is_not_asked_again_before_the_next_look() -> None:
    async with vllm({"/tokenize": [Status(404, {"detail": "Not Found"}), Status(200, TOKENS)]}) as (_, of, asked):
        assert await of.beginning(ask(), upstream_model="m-oai") is None
        assert not of.splits
        assert await of.beginning(ask(), upstream_model="m-oai") is None
        assert asked == ["/tokenize"]
        await of.probe()
        assert (await begun(of)).tokens == 100


@pytest.mark.parametrize(
    "answer",
    [
        Status(500, {"error": "boom"}),
        Status(400, {"error": {"message": "no", "code": 400}}),
        Status(200, "no JSON"),
        Status(200, [1]),
        Status(200, {"tokens": ["a"]}),
        [Word.RST],
    ],
)
async def test_a_prompt_whose_tokens_are_not_told_goes_whole(answer: Any) -> None:
    async with vllm({"/tokenize": [answer]}) as (_, of, _asked):
        assert await of.beginning(ask(), upstream_model="m-oai") is None
        assert of.splits


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Status(503, {"error": {"message": "busy"}}), "refused"),
        (Status(500, {"error": {"message": "boom"}}), "failed"),
        (Status(400, {"error": {"message": "no"}}), "client"),
        (Status(200, {"error": {"message": "boom", "code": 500}}), "failed"),
        (Status(200, "no JSON"), "failed"),
        ([Word.HEAD, Word.FIN], "failed"),
        ([Word.HEAD, Word.CUT], "failed"),
    ],
)
async def test_a_part_that_fails_fails_as_any_attempt_does(answer: Any, kind: str) -> None:
    async with vllm({"/tokenize": [Status(200, TOKENS)], "/v1/completions": [answer]}) as (_, of, _asked):
        with pytest.raises(BackendError) as raised:
            await (await begun(of)).read(50)
        assert raised.value.kind == kind


async def test_who_stops_listening_closes_the_connection() -> None:
    held: list[Recorded] = []

    def judge(path: str, request: Recorded) -> Any:
        if path == "/tokenize":
            return Status(200, TOKENS)
        held.append(request)
        return [Word.HOLD] if path == "/v1/completions" else None

    async with vllm({"/tokenize": [Status(200, TOKENS)]}) as (engine, of, _):
        engine.judge = judge
        reading = asyncio.create_task((await begun(of)).read(50))
        async with asyncio.timeout(5):
            while not held:
                await asyncio.sleep(0.005)
        sent = held[0].json()
        assert (sent["prompt"], sent["max_tokens"]) == (list(range(50)), 1)
        reading.cancel()
        await closed_soon(held[0])


async def test_an_engine_that_forgets_is_given_no_more_parts_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Answers = {"/tokenize": [Status(200, TOKENS)], "/v1/completions": [Status(200, READ)]}
    async with vllm(answers) as (engine, of, _):
        counts = {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
        engine.script = ["one", finish(), {"choices": [], "usage": counts}, DONE]
        for _number in range(3):
            assert of.splits
            said, usage = await read_in_parts(of, ask(), "m-oai", 0.5)
            assert (said, usage.cached) == ("one", 0)
        assert not of.splits
        await of.probe()
        assert not of.splits
        monkeypatch.setattr(beginning_module, "AGAIN_S", 0.0)
        await of.probe()
        assert of.splits


def test_what_vllm_is_asked() -> None:
    fields: dict[str, Any] = {"model": "m", "messages": [], "stream": True, "max_tokens": 5, "seed": 1}
    assert vllm_question(fields) == {"model": "m", "messages": []}
    fields |= {"reasoning_effort": "low", "chat_template_kwargs": {"thinking": True}, "add_generation_prompt": False}
    assert vllm_question(fields) == {
        "model": "m",
        "messages": [],
        "add_generation_prompt": False,
        "chat_template_kwargs": {"thinking": True, "reasoning_effort": "low", "enable_thinking": True},
    }
    assert vllm_question({"model": "m", "prompt": "x", "stop": ["y"]}) == {"model": "m", "prompt": "x"}


def test_slots_that_are_free() -> None:
    told = [{"id": 0, "is_processing": True}, {"id": 1, "is_processing": False}, {"id": "2"}, 3]
    assert idle_slots(told) == [1]
    assert idle_slots({"error": "not on"}) == []
