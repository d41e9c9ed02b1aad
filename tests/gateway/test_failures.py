"""Answers that do not come, or break off: before the first byte with a status, after it in the stream."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from buffer.job import End, Failure, Finish, ToolDelta
from buffer.store import StoreUnavailable
from gateway.delivery import Timing
from tests.gateway.rig import MODEL, Wire, chunks, lines, ollama, rig

BOTH = pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
STREAM_OR_NOT = pytest.mark.parametrize("stream", [True, False])
BROKEN = End("failed", Failure("The engine went away.", 502))


def sentence(got: httpx.Response) -> str:
    error = got.json()["error"]
    return str(error if isinstance(error, str) else error["message"])


@BOTH
@STREAM_OR_NOT
@pytest.mark.parametrize(("status", "outcome"), [(400, "client_error"), (502, "backend_error")])
async def test_a_failure_before_the_first_piece_has_its_status(
    path: str, stream: bool, status: int, outcome: str
) -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post(path, json=ollama(stream=stream)))
        job = await r.hands.take()
        await r.hands.end(job, End("failed", Failure("It is so.", status)))
        got = await sent
        assert got.status_code == status
        assert got.headers["content-type"].startswith("application/json")
        assert got.headers["x-doublebuffer-id"] == job.id
        assert got.headers["x-doublebuffer-backend"] == "engine"
        assert sentence(got) == "It is so."
        api = "ollama" if path == "/api/chat" else "openai"
        assert r.metric(f'requests_total{{api="{api}",lane="fast",outcome="{outcome}"}}') == 1


async def test_openais_stream_ends_with_an_error_event() -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post("/v1/chat/completions", json=ollama(stream=True)))
        job = await r.hands.take()
        r.hands.say(job, "Hel")
        await r.hands.end(job, BROKEN)
        got = await sent
        assert got.status_code == 200
        *_, last = chunks(got.text)
        assert last["error"]["message"] == "The engine went away."


async def broken_off(body: dict[str, Any], *headers: str, end: End = BROKEN) -> list[dict[str, Any]]:
    """The lines of a stream of Ollama's that failed after "Hel", having seen that its connection was broken off."""
    async with rig() as r:
        wire = await Wire.post(r.port, "/api/chat", body, *headers)
        job = await r.hands.take()
        r.hands.say(job, "Hel")
        await r.hands.end(job, end)
        got = await wire.rest()
        assert got.startswith(b"HTTP/1.1 200")
        assert not got.endswith(b"0\r\n\r\n")
        return [json.loads(line) for line in got.splitlines() if line.startswith(b"{")]


async def test_ollamas_stream_ends_with_an_error_line_and_no_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = await broken_off(ollama())
    assert [line.get("error") for line in found] == [None, "The engine went away."]
    assert caplog.records == []


@pytest.mark.parametrize("header", ["X-OpenWebUI-Chat-Id: 1", "User-Agent: Open-WebUI/0.12"])
async def test_to_open_webui_the_text_says_so_too(header: str) -> None:
    *_, before, last = await broken_off(ollama(), header)
    assert "The engine went away." in before["message"]["content"]
    assert last == {"error": "The engine went away."}


async def test_an_answer_that_turns_out_to_be_none_is_broken_off_as_well() -> None:
    """A call whose arguments are no JSON cannot be said in Ollama's form, and that shows only at its end."""
    async with rig() as r:
        wire = await Wire.post(r.port, "/api/chat", ollama())
        job = await r.hands.take()
        r.hands.say(job, ToolDelta(0, "c", "look", "{no"), Finish("tool_calls"))
        await r.hands.end(job)
        got = await wire.rest()
        assert b'{"error":' in got
        assert not got.endswith(b"0\r\n\r\n")
        assert r.metric('requests_total{api="ollama",lane="fast",outcome="backend_error"}') == 1


async def test_in_one_piece_it_is_a_failure_too() -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post("/api/chat", json=ollama(stream=False)))
        job = await r.hands.take()
        r.hands.say(job, ToolDelta(0, "c", "look", "{no"), Finish("tool_calls"))
        await r.hands.end(job)
        assert (await sent).status_code == 502
        assert r.metric('requests_total{api="ollama",lane="fast",outcome="backend_error"}') == 1


@BOTH
async def test_a_full_queue(path: str) -> None:
    async with rig(queue_limit=1) as r, asyncio.TaskGroup() as group:
        first = group.create_task(r.client.post(path, json=ollama(stream=False)))
        await r.waiting(1)
        got = await r.client.post(path, json=ollama(stream=True))
        assert got.status_code == 503
        assert 1 <= int(got.headers["retry-after"]) <= 120
        if path == "/api/chat":
            assert got.json() == {"error": "server busy, please try again.  maximum pending requests exceeded"}
        else:
            assert got.json()["error"]["code"] == "queue_full"
            assert got.json()["error"]["type"] == "server_error"
        await r.hands.answer("x")
        assert (await first).status_code == 200
        api = "ollama" if path == "/api/chat" else "openai"
        assert r.metric(f'requests_total{{api="{api}",lane="fast",outcome="refused"}}') == 1


@BOTH
@STREAM_OR_NOT
async def test_a_job_whose_turn_does_not_come(path: str, stream: bool) -> None:
    async with rig(queue_timeout_seconds=0.05) as r:
        got = await r.client.post(path, json=ollama(stream=stream))
        assert got.status_code == 503
        assert got.headers["x-should-retry"] == "false"
        assert "0.05 s" in sentence(got)
        assert not (await r.hands.pull_once()).jobs
        if path != "/api/chat":
            assert got.json()["error"]["code"] == "queue_timeout"
        api = "ollama" if path == "/api/chat" else "openai"
        assert r.metric(f'requests_total{{api="{api}",lane="fast",outcome="expired"}}') == 1


async def test_an_answer_that_has_started_in_time_may_take_its_time() -> None:
    async with rig(queue_timeout_seconds=0.05) as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post("/api/chat", json=ollama()))
        job = await r.hands.take()
        await asyncio.sleep(0.1)
        r.hands.say(job, "slow", Finish("stop"))
        await r.hands.end(job)
        assert "slow" in (await sent).text


@BOTH
async def test_an_unknown_model(path: str) -> None:
    async with rig() as r:
        got = await r.client.post(path, json=ollama("nobody:7b"))
        assert got.status_code == 404
        if path == "/api/chat":
            assert got.json() == {"error": "model 'nobody:7b' not found"}
        else:
            assert got.json()["error"]["code"] == "model_not_found"
            assert got.json()["error"]["param"] == "model"


@BOTH
async def test_no_worker(path: str) -> None:
    async with rig(show=False, timing=Timing(cold_s=0)) as r:
        got = await r.client.post(path, json=ollama())
        assert got.status_code == 503
        assert got.headers["retry-after"]
        assert "No worker" in sentence(got)


async def test_a_gateway_that_just_started_waits_for_its_first_worker() -> None:
    async with rig(show=False) as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post("/api/chat", json=ollama(stream=False)))
        await r.hands.show()
        await r.hands.answer("at last")
        assert (await sent).json()["message"]["content"] == "at last"


async def test_a_store_that_forgot_everything_is_given_time_to_hear_it_again() -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        before = (await r.client.get("/api/tags")).json()
        await r.store.redis.delete(*(left.key for left in await r.lanes.leftovers() if ":inbox:" not in left.key))
        await asyncio.sleep(1.1)  # until what the gateway knows is no longer fresh
        sent = group.create_task(r.client.post("/api/chat", json=ollama(stream=False)))
        assert (await r.client.get("/api/tags")).json() == before
        await r.hands.show()
        await r.hands.answer("still here")
        assert (await sent).json()["message"]["content"] == "still here"


async def test_all_back_ends_of_a_model_down() -> None:
    async with rig(show=False) as r:
        await r.hands.show(r.hands.state(up=False))
        await r.hands.show(r.hands.state(name="other", models=[]))
        got = await r.client.post("/api/chat", json=ollama())
        assert got.status_code == 503
        assert got.headers["retry-after"]
        assert MODEL in sentence(got)
        assert (await r.client.post("/api/chat", json=ollama("nobody"))).status_code == 404


@BOTH
async def test_the_store_away(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r:
        assert (await r.client.get("/api/tags")).status_code == 200

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(r.store, "exchange", away)
            patch.setattr(r.store, "script", away)
            got = await r.client.post(path, json=ollama())
            assert got.status_code == 503
            assert got.headers["retry-after"] == "1"
            assert (await r.client.get("/api/tags")).status_code == 200


@BOTH
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"model":1}', b"\xff\xfe"])
async def test_bodies_that_are_no_chat(path: str, body: bytes) -> None:
    async with rig() as r:
        got = await r.client.post(path, content=body)
        assert got.status_code == 400
        assert sentence(got)
        assert lines(got.text)
