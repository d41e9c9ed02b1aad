"""Ollama's API, over a real uvicorn and by its own client."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import httpx
import ollama
import pytest

from simulate.cost import PROFILES
from simulate.server import create_app, serve
from tests.simulate.serving import served, settled

MODEL = "simulated-qwen3:14b"
ASK = [{"role": "user", "content": "What is the capital of Norway?"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture
async def base() -> AsyncIterator[str]:
    async with served("rtx4090-ollama", models=(MODEL, "simulated-other")) as url:
        yield url


@pytest.fixture
async def client(base: str) -> AsyncIterator[ollama.AsyncClient]:
    async with ollama.AsyncClient(host=base) as made:
        yield made


@pytest.fixture
async def http(base: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=base, timeout=10) as made:
        yield made


async def test_the_models_are_listed_as_simulated(client: ollama.AsyncClient, http: httpx.AsyncClient) -> None:
    assert [model.model for model in (await client.list()).models] == [MODEL, "simulated-other"]
    entries = (await http.get("/api/tags")).json()["models"]
    assert all(entry["simulated"] is True and entry["details"]["family"] == "simulated" for entry in entries)
    shown = await client.show(MODEL)
    assert shown.capabilities == ["completion", "tools", "thinking"]
    assert (shown.modelinfo or {})["simulated.context_length"] == 8_192
    running = (await client.ps()).models
    assert [model.model for model in running] == [MODEL]
    assert (await http.get("/")).text == "Ollama is running"
    assert (await http.head("/api/version")).status_code == 200


async def test_a_whole_answer(client: ollama.AsyncClient) -> None:
    answer = await client.chat(MODEL, ASK)
    assert (answer.message.thinking or "").startswith("Simulated thinking")
    assert (answer.message.content or "").startswith("This answer is simulated")
    assert (answer.done, answer.done_reason, answer.model) == (True, "stop", MODEL)
    assert (answer.eval_count or 0) > 48
    assert (answer.eval_duration or 0) > 0


async def test_a_stream_is_the_whole_answer_in_pieces(client: ollama.AsyncClient) -> None:
    whole = await client.chat(MODEL, ASK, think=True)
    lines = [line async for line in await client.chat(MODEL, ASK, think=True, stream=True)]
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    assert "".join(line.message.content or "" for line in lines) == whole.message.content
    assert "".join(line.message.thinking or "" for line in lines) == whole.message.thinking
    assert lines[-1].eval_count == whole.eval_count == len(lines) - 1


async def test_thinking_off_and_a_bad_word_for_it(client: ollama.AsyncClient, http: httpx.AsyncClient) -> None:
    answer = await client.chat(MODEL, ASK, think=False)
    assert answer.message.thinking is None
    assert answer.message.content
    refused = await http.post("/api/chat", json={"model": MODEL, "messages": ASK, "think": "loud"})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("invalid think value")


async def test_generate(client: ollama.AsyncClient) -> None:
    answer = await client.generate(MODEL, "Say something", options={"num_predict": 9}, think=False)
    assert (answer.response or "").startswith("This answer is")
    assert (answer.done_reason, answer.eval_count) == ("length", 9)
    stream = await client.generate(MODEL, "Say something", options={"num_predict": 9}, think=False, stream=True)
    assert "".join([line.response or "" async for line in stream]) == answer.response


async def test_the_wire_of_a_stream(http: httpx.AsyncClient) -> None:
    """A body as curl sends it, without a content type; streaming is the default."""
    body = {"model": "Simulated-Qwen3:14B", "messages": ASK, "options": {"num_predict": 3, "stop": "nowhere"}}
    answer = await http.post("/api/chat", content=json.dumps(body))
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["done"] for line in lines] == [False, False, False, True]
    assert lines[-1]["model"] == "Simulated-Qwen3:14B"
    durations = [value for name, value in lines[-1].items() if name.endswith("_duration")]
    assert len(durations) == 4
    assert all(isinstance(value, int) for value in durations)
    assert datetime.fromisoformat(lines[0]["created_at"]).tzinfo is not None


async def test_a_tool_call_has_a_line_of_its_own(client: ollama.AsyncClient) -> None:
    options: Any = {"sim_tool_call": True}
    lines = [line async for line in await client.chat(MODEL, ASK, tools=[TOOL], options=options, stream=True)]
    calls = [call for line in lines for call in line.message.tool_calls or []]
    assert [(call.function.name, call.function.arguments) for call in calls] == [("weather", {"city": "simulated"})]
    assert lines[-2].message.tool_calls
    assert lines[-1].done_reason == "stop"
    whole = await client.chat(MODEL, ASK, tools=[TOOL], options=options)
    assert whole.message.tool_calls == calls
    assert whole.message.content == ""
    assert not (await client.chat(MODEL, ASK, tools=[TOOL])).message.tool_calls


async def test_structured(client: ollama.AsyncClient) -> None:
    answer = await client.chat(MODEL, ASK, format=TOOL["function"]["parameters"])  # type: ignore[index]
    assert json.loads(answer.message.content or "") == {"city": "simulated"}


async def test_prompts_are_cut_unless_the_client_forbids_it(http: httpx.AsyncClient) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x" * 40_000}], "stream": False}
    assert (await http.post("/api/chat", json=body)).json()["prompt_eval_count"] == 8_192
    whole = await http.post("/v1/chat/completions", json=body)
    assert whole.json()["usage"]["prompt_tokens"] == 8_192
    refused = await http.post("/api/chat", json=body | {"truncate": False})
    assert (refused.status_code, refused.json()) == (400, {"error": "the input length exceeds the context length"})


async def test_loading_and_unloading(client: ollama.AsyncClient, http: httpx.AsyncClient) -> None:
    unloaded = (await http.post("/api/generate", json={"model": MODEL, "keep_alive": 0, "prompt": ""})).json()
    assert (unloaded["response"], unloaded["done_reason"]) == ("", "unload")
    assert (await client.ps()).models == []
    loaded = (await http.post("/api/chat", json={"model": "simulated-other", "messages": []})).json()
    assert loaded["done_reason"] == "load"
    assert [model.model for model in (await client.ps()).models] == ["simulated-other"]
    assert (await client.chat(MODEL, ASK, keep_alive=-1)).done
    running = (await client.ps()).models
    assert [model.model for model in running] == [MODEL]
    assert running[0].expires_at is not None
    assert running[0].expires_at.year == 9999
    await client.chat(MODEL, ASK, options={"num_ctx": 2_048}, keep_alive="10m")
    assert (await client.ps()).models[0].context_length == 2_048
    await client.chat(MODEL, ASK, keep_alive=0)
    assert (await client.ps()).models == []


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/api/chat", {"messages": ASK}, 400, "model is required"),
        ("/api/chat", {"model": "qwen3:14b", "messages": ASK}, 404, "model 'qwen3:14b' not found"),
        ("/api/show", {"model": "nope"}, 404, "model 'nope' not found"),
        ("/api/chat", {"model": MODEL, "messages": ASK, "keep_alive": "300"}, 400, "invalid duration"),
        ("/api/chat", {"model": MODEL, "messages": ASK, "options": {"num_predict": "x"}}, 400, "of type integer"),
        ("/api/chat", {"model": MODEL, "messages": [{"role": 5}]}, 400, "role"),
        ("/api/chat", {"model": MODEL, "messages": "hello"}, 400, "Expected"),
    ],
)
async def test_what_ollama_refuses(http: httpx.AsyncClient, path: str, body: Any, status: int, says: str) -> None:
    answer = await http.post(path, json=body)
    assert answer.status_code == status
    assert says in answer.json()["error"]


async def test_a_full_queue_is_refused_over_both_apis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulate.ollama.QUEUE", 20)
    async with (
        served("rtx4090-ollama", time_scale=1.0) as base,
        httpx.AsyncClient(base_url=base, timeout=None) as http,
        asyncio.TaskGroup() as tasks,
    ):
        body = {"model": MODEL, "messages": ASK, "options": {"sim_output_tokens": 9_000}}
        asking = [tasks.create_task(http.post("/api/chat", json=body)) for _ in range(21)]
        await settled(http, num_requests_running=1, num_requests_waiting=20)
        for path in ("/api/chat", "/v1/chat/completions"):
            refused = await http.post(path, json={"model": MODEL, "messages": ASK, "stream": True})
            assert refused.status_code == 503
            assert "maximum pending requests exceeded" in refused.text
        for task in asking:
            task.cancel()
        await settled(http, num_requests_running=0, num_requests_waiting=0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_stops_the_engine(stream: bool) -> None:
    async with (
        served("rtx4090-ollama", time_scale=0.2) as base,
        httpx.AsyncClient(base_url=base, timeout=None) as http,
        asyncio.TaskGroup() as tasks,
    ):
        body = {"model": MODEL, "messages": ASK, "stream": stream, "options": {"sim_output_tokens": 30_000}}
        asking = [tasks.create_task(http.post("/api/chat", json=body)) for _ in range(2)]
        await settled(http, num_requests_running=1, num_requests_waiting=1)
        asking[1].cancel()
        await settled(http, num_requests_running=1, num_requests_waiting=0)
        asking[0].cancel()
        await settled(http, num_requests_running=0, kv_cache_usage_perc=0)


@pytest.mark.parametrize("profile", list(PROFILES))
async def test_every_profile_speaks_both_apis(profile: str) -> None:
    async with served(profile) as base, httpx.AsyncClient(base_url=base, timeout=10) as http:
        body = {"model": MODEL, "messages": ASK, "stream": False}
        native = (await http.post("/api/chat", json=body)).json()
        other = (await http.post("/v1/chat/completions", json=body)).json()
        assert native["message"]["content"] == other["choices"][0]["message"]["content"]
        assert profile in native["message"]["content"]
        assert other["system_fingerprint"] == f"fp_simulated_{profile}"
        assert native["eval_count"] == other["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    "settings",
    [{"models": ("qwen3:14b",)}, {"models": ()}, {"profile_name": "rtx5090"}, {"time_scale": -1.0}, {"slots": 0}],
)
def test_settings_that_are_none(settings: Any) -> None:
    with pytest.raises(ValueError):
        create_app(**settings)


async def test_cancelling_the_server_ends_it() -> None:
    listening = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve("127.0.0.1", 0, stop=asyncio.Event(), ready=lambda _, port: listening.set_result(port))
    )
    port = await listening
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_answers_go_on_to_their_limit_where_the_server_is_told_so() -> None:
    async with served("rtx4090-ollama", ignore_eos=True) as url, httpx.AsyncClient(base_url=url) as client:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "stream": False}
        answer = (await client.post("/api/chat", json=body | {"options": {"num_predict": 700}})).json()
        assert (answer["eval_count"], answer["done_reason"]) == (700, "length")
