"""Whole and streamed answers of both APIs, over a real server."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest

from buffer.job import Finish, Origin, Reasoning, ToolDelta, Usage
from tests.gateway.rig import MODEL, PLAIN, PROMPT, Rig, Wire, chunks, lines, ollama, rig


async def post(r: Rig, path: str, body: object, *answer: str, **headers: str) -> httpx.Response:
    """Sends a chat, answers it, gives the answer as its client has it."""
    async with asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post(path, json=body, headers=headers))
        await r.hands.answer(*answer)
    return sent.result()


async def test_ollama_stream() -> None:
    async with rig() as r:
        got = await post(r, "/api/chat", ollama("Qwen3:0.6B"), "Hel", "lo")
        assert got.status_code == 200
        assert got.headers["content-type"] == "application/x-ndjson"
        assert got.headers["cache-control"] == "no-cache"
        assert got.headers["x-accel-buffering"] == "no"
        assert got.headers["x-doublebuffer"] == "1"
        assert got.headers["x-doublebuffer-lane"] == "fast"
        assert got.headers["x-doublebuffer-backend"] == "engine"
        assert "content-length" not in got.headers
        *pieces, last = lines(got.text)
        assert "".join(piece["message"]["content"] for piece in pieces) == "Hello"
        assert {piece["model"] for piece in pieces} == {"Qwen3:0.6B"}
        assert last["done"] is True
        assert (last["prompt_eval_count"], last["eval_count"]) == (7, 2)
        assert r.metric('requests_total{api="ollama",lane="fast",outcome="ok"}') == 1
        assert r.metric('tokens_total{direction="completion"}') == 2
        assert r.metric('time_to_first_token_seconds_count{lane="fast"}') == 1
        assert r.metric('request_seconds_count{lane="fast"}') == 1


async def test_ollama_whole() -> None:
    async with rig() as r:
        got = await post(r, "/api/chat", ollama(stream=False), "Hel", "lo")
        assert got.headers["content-type"] == "application/json; charset=utf-8"
        assert got.headers["x-doublebuffer-backend"] == "engine"
        assert got.json()["message"]["content"] == "Hello"
        assert got.json()["done"] is True


async def test_openai_stream() -> None:
    async with rig() as r:
        got = await post(
            r, "/v1/chat/completions", ollama(stream=True, stream_options={"include_usage": True}), "Hel", "lo"
        )
        assert got.headers["content-type"] == "text/event-stream"
        assert got.headers["cache-control"] == "no-cache"
        assert got.headers["x-accel-buffering"] == "no"
        found = chunks(got.text)
        assert "".join(c["choices"][0]["delta"].get("content") or "" for c in found if c["choices"]) == "Hello"
        assert {c["id"] for c in found} == {f"chatcmpl-{got.headers['x-doublebuffer-id']}"}
        assert found[-1]["usage"]["completion_tokens"] == 2


async def test_openai_whole() -> None:
    async with rig() as r:
        got = await post(r, "/v1/chat/completions", ollama(), "Hel", "lo")
        assert got.headers["content-type"].startswith("application/json")
        assert got.json()["choices"][0]["message"]["content"] == "Hello"
        assert got.json()["usage"]["prompt_tokens"] == 7


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
async def test_thinking_asked_for_takes_its_lane_and_its_own_field(path: str) -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post(path, json=ollama(stream=False, think=True)))
        job = await r.hands.take()
        assert (await r.hands.chat(job)).think == "on"
        r.hands.say(job, Reasoning("hm"), "yes", Finish("stop"))
        await r.hands.end(job)
        got = await sent
        assert got.headers["x-doublebuffer-lane"] == "thinking"
        message = got.json().get("message") or got.json()["choices"][0]["message"]
        assert message["content"] == "yes"
        assert message.get("thinking", message.get("reasoning")) == "hm"


async def test_what_engine_says_of_itself_and_tool_calls_come_through() -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post("/v1/chat/completions", json=ollama()))
        job = await r.hands.take()
        r.hands.say(job, Origin("simulated"), ToolDelta(0, "c1", "look", '{"at":'), ToolDelta(0, arguments="1}"))
        r.hands.say(job, Finish("tool_calls"), Usage(1, 1))
        await r.hands.end(job)
        got = (await sent).json()
        assert got["system_fingerprint"] == "simulated"
        (call,) = got["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"at": 1}


async def test_curl_without_a_content_type() -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        wire = await Wire.post(
            r.port, "/api/chat", ollama(), "Content-Type: application/x-www-form-urlencoded", "Connection: close"
        )
        rest = group.create_task(wire.rest())
        await r.hands.answer("hi")
        got = await rest
        assert got.startswith(b"HTTP/1.1 200 OK")
        assert b'"done":true' in got
        assert got.endswith(b"0\r\n\r\n")


async def test_ids_are_ours_and_request_ids_the_clients() -> None:
    async with rig() as r:
        got = await post(r, "/api/chat", ollama(), "x", **{"X-Request-Id": "mine-1", "X-Doublebuffer-Id": "mine-2"})
        assert got.headers["x-request-id"] == "mine-1"
        assert re.fullmatch(r"[0-9a-f]{32}", got.headers["x-doublebuffer-id"])
        got = await post(r, "/api/chat", ollama(), "x", **{"X-Request-Id": "no blanks, please"})
        assert re.fullmatch(r"[0-9a-f]{32}", got.headers["x-request-id"])
        assert (await r.client.get("/v1/nothing")).headers["x-request-id"]


async def test_a_client_may_choose_a_lower_lane_and_no_higher_one() -> None:
    async with rig() as r:
        for wished, lane in (
            ("slow", "slow"),
            ("thinking", "fast"),
            ("nonsense", "fast"),
            ("background", "background"),
        ):
            got = await post(r, "/api/chat", ollama(), "x", **{"X-Doublebuffer-Lane": wished})
            assert got.headers["x-doublebuffer-lane"] == lane


async def test_lanes_go_by_length_and_background_tasks_by_their_header() -> None:
    async with rig() as r:
        for text, lane in (("x" * 99, "fast"), ("x" * 100, "normal"), ("x" * 2000, "slow")):
            body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
            assert (await post(r, "/api/chat", body, "x")).headers["x-doublebuffer-lane"] == lane
        got = await post(r, "/api/chat", ollama(stream=False), "x", **{"X-OpenWebUI-Task": "tags_generation"})
        assert got.headers["x-doublebuffer-lane"] == "background"


async def test_what_an_engine_has_read_before_costs_it_nothing_anew() -> None:
    async with rig() as r:
        system = {"role": "system", "content": "Many words. " * 1000}
        body = {"model": MODEL, "messages": [system, *PROMPT]}
        first = await post(r, "/api/chat", body, "x")
        second = await post(r, "/api/chat", body, "x")
        assert first.headers["x-doublebuffer-lane"] == "normal"
        assert second.headers["x-doublebuffer-lane"] == "fast"
        assert r.hands.granted[0].prefill > 3000
        assert r.hands.granted[1].prefill < 10


async def test_a_chat_without_messages_loads_or_unloads_at_once() -> None:
    async with rig() as r:
        for keep_alive, reason in ((None, "load"), (0, "unload"), ("5m", "load")):
            body: dict[str, Any] = {"model": MODEL, "messages": [], "keep_alive": keep_alive}
            got = await r.client.post("/api/chat", json=body)
            assert got.json()["done_reason"] == reason
        assert (await r.lanes.depths())["fast"].waiting == 0


async def test_a_model_that_cannot_think_is_not_asked_to() -> None:
    async with rig() as r:
        got = await r.client.post("/api/chat", json=ollama(PLAIN, think=True))
        assert got.status_code == 400
        assert got.json() == {"error": f'"{PLAIN}" does not support thinking'}
        assert r.metric('requests_total{api="ollama",lane="none",outcome="client_error"}') == 1
        got = await post(r, "/v1/chat/completions", ollama(PLAIN, reasoning_effort="high"), "x")
        assert got.headers["x-doublebuffer-lane"] == "fast"


async def test_a_connection_serves_one_chat_after_another() -> None:
    async with rig() as r:
        for i in range(5):
            got = await post(r, "/api/chat", ollama(stream=bool(i % 2)), str(i))
            assert lines(got.text)[0]["message"]["content"] == str(i)
        assert await r.store.redis.xlen(r.lanes.keys.jobs("fast")) == 0
        assert all(left.ttl_s > 0 for left in await r.lanes.leftovers() if ":job:" in left.key or ":reply:" in left.key)
