"""Literal prompts: OpenAI's completions and Ollama's raw mode, over a real uvicorn and by their own clients."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import ollama
import openai
import pytest

from tests.simulate.serving import load_of, served, settled

MODEL = "simulated-qwen3:14b"


@pytest.fixture
async def base() -> AsyncIterator[str]:
    async with served() as url:
        yield url


@pytest.fixture
async def client(base: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as made:
        yield made


async def test_a_whole_answer(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model=MODEL, prompt="Once upon a time")
    assert answer.object == "text_completion"
    assert answer.choices[0].text.startswith("This answer is simulated")
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 16)


async def test_a_stream_is_the_whole_answer_in_pieces(client: openai.AsyncOpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "Once", "n": 2, "max_tokens": 40, "echo": True}
    whole = await client.completions.create(**asked)
    stream = await client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    texts = ["", ""]
    chunks = [chunk async for chunk in stream]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in whole.choices]
    assert texts[0].startswith("OnceThis answer is simulated")
    assert texts[0] != texts[1]
    assert chunks[-1].usage == whole.usage


async def test_only_the_prompt(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model=MODEL, prompt="Once", max_tokens=0, echo=True)
    assert answer.choices[0].text == "Once"


async def test_token_ids_count(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model=MODEL, prompt=[1, 2, 3], max_tokens=2)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 99}, "n"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": "word " * 50_000}, "input_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
async def test_refusals(base: str, fields: dict[str, Any], param: str) -> None:
    async with httpx.AsyncClient(base_url=base, timeout=10) as http:
        got = await http.post("/v1/completions", json={"model": MODEL, "prompt": "x"} | fields)
        assert got.status_code == 400
        assert got.json()["error"]["param"] == param


async def test_a_client_that_leaves_is_forgotten() -> None:
    async with served(time_scale=1.0) as slow, httpx.AsyncClient(base_url=slow, timeout=10) as http:
        body = {"model": MODEL, "prompt": "x", "max_tokens": 5000, "ignore_eos": True, "stream": True}
        async with http.stream("POST", "/v1/completions", json=body) as got:
            await anext(got.aiter_bytes())
            assert (await load_of(http))["num_requests_running"] == 1
        await settled(http, num_requests_running=0)


async def test_raw_mode_of_ollama(base: str) -> None:
    client = ollama.AsyncClient(base)
    answer = await client.generate(MODEL, "Once upon a time", raw=True)
    assert (answer.response or "").startswith("This answer is simulated")
    assert answer.thinking is None
    assert answer.prompt_eval_count == 4
    for fields in ({"raw": True, "system": "s"}, {"raw": True, "context": [1]}, {"suffix": "x"}):
        with pytest.raises(ollama.ResponseError) as refused:
            await client.generate(MODEL, "Once", **fields)
        assert refused.value.status_code == 400
