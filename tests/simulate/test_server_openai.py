"""OpenAI's API, over a real uvicorn and by its own client."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from tests.simulate.serving import load_of, served, settled

MODEL = "simulated-qwen3:14b"
ASK: list[Any] = [{"role": "user", "content": "What is the capital of Norway?"}]
OFF = {"chat_template_kwargs": {"enable_thinking": False}}
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture
async def base() -> AsyncIterator[str]:
    async with served() as url:
        yield url


@pytest.fixture
async def client(base: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture
async def http(base: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=base, timeout=10) as made:
        yield made


async def test_the_model_is_listed_as_simulated(client: openai.AsyncOpenAI) -> None:
    cards = (await client.models.list()).data
    assert [(card.id, card.owned_by) for card in cards] == [(MODEL, "doublebuffer-simulated")]
    assert cards[0].model_dump()["simulated"] is True
    assert cards[0].model_dump()["max_model_len"] == 32_768


async def test_a_whole_answer_thinks_unless_told_otherwise(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=ASK)
    message = answer.choices[0].message
    assert message.content is not None
    assert message.content.startswith("This answer is simulated")
    assert message.model_dump()["reasoning"].startswith("Simulated thinking")
    assert "thinking" not in message.content
    assert answer.system_fingerprint == "fp_simulated_rtx4090-vllm"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens_details is not None
    assert 0 < (answer.usage.completion_tokens_details.reasoning_tokens or 0) < answer.usage.completion_tokens


@pytest.mark.parametrize("extra", [OFF, {"reasoning_effort": "none"}])
async def test_thinking_off(client: openai.AsyncOpenAI, extra: dict[str, Any]) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=ASK, extra_body=extra)
    assert answer.choices[0].message.model_dump()["reasoning"] is None
    assert answer.choices[0].message.content


async def test_a_stream_is_the_whole_answer_in_pieces(client: openai.AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(model=MODEL, messages=ASK)
    stream = await client.chat.completions.create(
        model=MODEL, messages=ASK, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert len({chunk.id for chunk in chunks}) == 1
    assert {chunk.system_fingerprint for chunk in chunks} == {"fp_simulated_rtx4090-vllm"}
    assert chunks[0].choices[0].delta.role == "assistant"
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    thought = "".join(delta.model_dump().get("reasoning") or "" for delta in deltas)
    assert thought == whole.choices[0].message.model_dump()["reasoning"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == len(deltas) - 1


async def test_the_wire_ends_with_done(http: httpx.AsyncClient) -> None:
    body = {"model": MODEL, "messages": ASK, "stream": True, "max_tokens": 3, **OFF}
    answer = await http.post("/v1/chat/completions", json=body, headers={"X-Request-Id": "mine"})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    pieces = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert [piece["choices"][0]["finish_reason"] for piece in pieces] == [None, None, None, "length"]
    assert "usage" not in pieces[-1]
    assert pieces[0]["id"] == "chatcmpl-mine"


async def test_lengths_stops_and_several_answers(client: openai.AsyncOpenAI) -> None:
    async def ask(**more: Any) -> Any:
        more["extra_body"] = OFF | more.get("extra_body", {})
        return await client.chat.completions.create(model=MODEL, messages=ASK, **more)

    cut = await ask(max_tokens=9)
    assert (cut.choices[0].finish_reason, cut.usage.completion_tokens) == ("length", 9)
    long = await ask(extra_body={"sim_output_tokens": 700})
    assert (long.choices[0].finish_reason, long.usage.completion_tokens) == ("stop", 700)
    stopped = await ask(stop=["no model"])
    assert stopped.choices[0].message.content.endswith("]: ")
    assert stopped.choices[0].model_dump()["stop_reason"] == "no model"
    three = await ask(n=3, max_tokens=40)
    texts = [choice.message.content for choice in three.choices]
    assert len(set(texts)) == 3
    assert three.usage.completion_tokens == 120
    stream = await ask(n=3, max_tokens=40, stream=True)
    joined = ["", "", ""]
    async for chunk in stream:
        joined[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert joined == texts


async def test_only_thinking_when_the_tokens_end_there(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=5)
    assert answer.choices[0].message.content is None
    assert answer.choices[0].message.model_dump()["reasoning"]
    assert answer.choices[0].finish_reason == "length"


async def test_a_tool_is_called_where_one_must_be(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=ASK, tools=[TOOL], tool_choice="required", extra_body=OFF
    )
    call: Any = (answer.choices[0].message.tool_calls or [])[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "simulated"})
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    stream = await client.chat.completions.create(
        model=MODEL, messages=ASK, tools=[TOOL], tool_choice="required", stream=True
    )
    deltas = [chunk.choices[0].delta async for chunk in stream]
    pieces = [call for delta in deltas for call in delta.tool_calls or []]
    assert [piece.id for piece in pieces if piece.id] == [call.id]
    assert "".join(piece.function.arguments or "" for piece in pieces if piece.function) == call.function.arguments
    free = await client.chat.completions.create(model=MODEL, messages=ASK, tools=[TOOL])
    assert not free.choices[0].message.tool_calls


async def test_a_structured_answer_fits_its_schema(client: openai.AsyncOpenAI) -> None:
    schema = TOOL["function"]["parameters"]
    form: Any = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    answer = await client.chat.completions.create(model=MODEL, messages=ASK, response_format=form)
    assert json.loads(answer.choices[0].message.content or "") == {"city": "simulated"}


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"model": "qwen3:14b"}, 404, "model"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "user", "content": "x" * 4 * 32_768}]}, 400, "input_tokens"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": 40_000}, 400, "max_tokens"),
        ({"max_tokens": "many"}, 400, "body"),
        ({"tools": []}, 400, "tools"),
        ({"tool_choice": "required"}, 400, "tool_choice"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options"),
        ({"stop": ["a", "b", "c", "d", "e"]}, 400, "stop"),
        ({"temperature": -5}, 400, "temperature"),
        ({"n": 0}, 400, "n"),
    ],
)
async def test_what_vllm_refuses(http: httpx.AsyncClient, change: dict[str, Any], status: int, param: str) -> None:
    answer = await http.post("/v1/chat/completions", json={"model": MODEL, "messages": ASK, "stream": False} | change)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, status, param)


async def test_bodies_and_paths_that_are_none(http: httpx.AsyncClient) -> None:
    for content in (b"", b"{", b"[]", b'"\xff"'):
        answer = await http.post("/v1/chat/completions", content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)
    assert (await http.get("/v1/nothing")).status_code == 404
    assert (await http.get("/v1/chat/completions")).status_code == 405
    assert (await http.get("/health")).content == b""
    assert (await http.get("/props")).json()["total_slots"] == 32
    assert "simulated" in (await http.get("/version")).json()["version"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_stops_the_engine(stream: bool) -> None:
    async with (
        served(time_scale=0.2, slots=1) as base,
        httpx.AsyncClient(base_url=base) as http,
        asyncio.TaskGroup() as tasks,
    ):
        body = {"model": MODEL, "messages": ASK, "stream": stream, "sim_output_tokens": 30_000}
        asking = [tasks.create_task(http.post("/v1/chat/completions", json=body, timeout=None)) for _ in range(3)]
        load = await settled(http, num_requests_running=1, num_requests_waiting=2)
        assert load["kv_cache_usage_perc"] > 0
        for task in asking:
            task.cancel()
        load = await settled(http, num_requests_running=0, num_requests_waiting=0)
        assert load["kv_cache_usage_perc"] == 0
        assert load["request_success_total"] == 0


async def test_metrics_tell_the_size_of_the_kv_and_the_prefix_cache(http: httpx.AsyncClient) -> None:
    ask = {"model": MODEL, "messages": [{"role": "user", "content": "word " * 400}], "max_tokens": 4}
    for _ in range(2):
        usage = (await http.post("/v1/chat/completions", json=ask)).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 480
    load = await load_of(http)
    assert load["prefix_cache_hits_total"] == usage["prompt_tokens_details"]["cached_tokens"]
    assert load["request_success_total"] == 2
    assert load["generation_tokens_total"] == 8
    text = (await http.get("/metrics")).text
    assert (
        'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="2437"}' in text
    )


async def test_modelled_time_is_wall_time() -> None:
    async with served(time_scale=1.0) as base, httpx.AsyncClient(base_url=base) as http:
        body = {"model": MODEL, "messages": ASK, "sim_output_tokens": 30}
        loop = asyncio.get_running_loop()
        began = loop.time()
        await http.post("/v1/chat/completions", json=body)
        assert 0.5 < loop.time() - began < 5, "12 ms and 30 steps of 17.4 ms"


async def test_256_streams_at_once() -> None:
    async with (
        served("h100-vllm", slots=256) as base,
        httpx.AsyncClient(base_url=base, limits=httpx.Limits(max_connections=256), timeout=60) as http,
        asyncio.TaskGroup() as tasks,
    ):

        async def ask(number: int) -> str:
            messages = [{"role": "user", "content": f"question {number}"}]
            body = {"model": MODEL, "messages": messages, "stream": True, "sim_output_tokens": 60, **OFF}
            text = (await http.post("/v1/chat/completions", json=body)).text
            pieces = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
            return "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces)

        answers = [tasks.create_task(ask(number)) for number in range(256)]
    texts = [task.result() for task in answers]
    assert len({text.split("]")[0] for text in texts}) == 256
    assert len({text.split("]")[1] for text in texts}) == 1
