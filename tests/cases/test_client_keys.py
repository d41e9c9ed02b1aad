"""Whose key opens what: a client's opens the gateway and goes no further, a back end's is for that back end alone."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.cases.reply import Reply
from tests.cases.rig import BOTH, OAI, Bench, run_bench, settings
from tests.cases.scripts import plain
from tests.cases.traces import Overheard, holding, logged, metrics
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Status, Wait, answer, chunk, role

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLIENT, BACKEND = "ck-client-1", "bk-backend-9"
HOSTILE = {
    "authorization": f"Bearer {CLIENT}",
    "x-api-key": CLIENT,
    "cookie": "sid=s3cr3t",
    "proxy-authorization": "Basic Zm9v",
    "x-forwarded-for": "9.9.9.9",
    "connection": "x-foo",
    "x-foo": "1",
}
MORE_HOSTILE = {
    "host": "evil.example",
    "forwarded": "for=9.9.9.9",
    "x-real-ip": "9.9.9.9",
    "openai-organization": "org-spy",
    "openai-project": "proj-spy",
    "x-conversation-id": "conv-spy",
    "x-request-id": "req-spy",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "x-openwebui-user-email": "spy@mail.example",
    "x-data-parallel-rank": "7",
    "x-session-id": "sess-spy",
    "te": "trailers",
    "expect": "100-continue",
    "x-amz-target": "spy",
    "x-doublebuffer-id": "id-spy",
    "accept-language": "tlh-spy",
    "referer": "http://spy.example/",
    "user-agent": "spy/1.0",
}
OURS = {
    *("host", "content-type", "content-length", "transfer-encoding", "accept", "accept-encoding", "connection"),
    *("user-agent", "authorization", "x-request-id"),
}
"""Headers that an engine may be sent."""
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    more = settings(keys=f"client:{CLIENT}", log_level="debug")
    async with run_bench(more=more, key=CLIENT, api_key=BACKEND) as found:
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def heard(bench: Bench) -> Overheard:
    overheard = Overheard()
    overheard.listen(bench.oai, bench.oll)
    bench.oai.script = bench.oll.script = plain
    return overheard


def told(replies: list[Reply]) -> bytes:
    return b"\n".join(repr(reply.headers.raw).encode() + reply.body for reply in replies)


async def nothing_leaked(bench: Bench, heard: Overheard, replies: list[Reply]) -> None:
    sent = heard.said()
    assert sent
    for word in (CLIENT, "s3cr3t", "Zm9v", "9.9.9.9", "spy"):
        assert word.encode() not in sent, word
    for request in heard.requests:
        assert set(request.headers) <= OURS, request.headers
        assert request.headers.get("connection", "keep-alive") == "keep-alive"
        wanted = f"Bearer {BACKEND}" if f":{bench.oai.port}" in request.headers["host"] else None
        assert request.headers.get("authorization") == wanted
    for word in (CLIENT, BACKEND):
        assert word not in logged(bench.site)
        assert word not in await metrics(bench)
        assert await holding(bench.site, [word]) == {}
    assert BACKEND.encode() not in told(replies)


async def test_chats_carry_the_back_ends_key_and_no_other(bench: Bench, heard: Overheard) -> None:
    replies = []
    for headers in (HOSTILE, HOSTILE | MORE_HOSTILE):
        for api in ("openai", "ollama"):
            for model in BOTH:
                replies += [await bench.chat(api, model, stream=stream, headers=headers) for stream in (True, False)]
    assert [reply.content for reply in replies] == ["ok"] * len(replies)
    replies += [await bench.get(path, headers=HOSTILE) for path in ("/api/tags", "/v1/models")]
    bench.oai.script = [Status(500, {"error": {"message": "no luck"}})]
    replies.append(await bench.chat("openai", OAI, headers=HOSTILE))
    assert replies[-1].status >= 500
    await nothing_leaked(bench, heard, replies)


async def test_every_other_route_too(bench: Bench, heard: Overheard) -> None:
    """Agents' APIs, completions, embeddings, and the routes by which models come and go."""
    replies = []
    for model in BOTH:
        bodies: dict[str, dict[str, Any]] = {
            "/v1/messages": {"messages": MESSAGES, "max_tokens": 5},
            "/v1/messages/count_tokens": {"messages": MESSAGES},
            "/v1/responses": {"input": "hi"},
            "/v1/completions": {"prompt": "hi"},
            "/api/generate": {"prompt": "hi"},
            "/v1/embeddings": {"input": "hi"},
            "/api/embed": {"input": "hi"},
            "/api/embeddings": {"prompt": "hi"},
            "/api/show": {},
        }
        for path, body in bodies.items():
            whole = {"model": model, "stream": False} | body
            replies.append(await bench.ask(path, whole, headers=HOSTILE | MORE_HOSTILE))
            assert replies[-1].status == 200, (path, model, replies[-1].body)
    digest = "sha256:" + "ab" * 32
    for method, path, content in (
        ("POST", "/api/pull", {"model": "m-new"}),
        ("POST", "/api/push", {"model": "m-new"}),
        ("POST", "/api/copy", {"source": "m-new", "destination": "m-copy"}),
        ("POST", "/api/create", {"model": "m-made", "from": "m-new"}),
        ("DELETE", "/api/delete", {"model": "m-made"}),
        ("HEAD", f"/api/blobs/{digest}", None),
        ("POST", f"/api/blobs/{digest}", b"data"),
    ):
        replies.append(await bench.ask(path, content, method=method, headers=HOSTILE | MORE_HOSTILE))
        assert replies[-1].status in (200, 201, 400, 404), (path, replies[-1].body)
    await nothing_leaked(bench, heard, replies)


async def test_a_key_in_the_wrong_place_goes_nowhere_either(bench: Bench, heard: Overheard) -> None:
    """In the query, in the body, as another scheme; and one that is refused is not repeated."""
    replies = []
    fields = {"api_key": CLIENT, "authorization": CLIENT, "headers": {"x": CLIENT}, "extra_headers": {"x": CLIENT}}
    for path in ("/v1/chat/completions", "/api/chat"):
        for model in BOTH:
            body = {"model": model, "stream": False, "messages": MESSAGES, **fields, "options": {"api_key": CLIENT}}
            replies.append(await bench.ask(f"{path}?key={CLIENT}", body, headers=HOSTILE))
            assert replies[-1].content == "ok"
            replies.append(await bench.ask(f"{path}?api_key={CLIENT}", body))
            wrong = base64.b64encode(f":{CLIENT}".encode()).decode()
            replies.append(await bench.ask(path, body, headers={"authorization": f"Basic {wrong}"}))
            replies.append(await bench.ask(path, body, headers={"authorization": f"Bearer {CLIENT}x"}))
            assert [reply.status for reply in replies[-3:]] == [401] * 3
            assert CLIENT.encode() not in told(replies[-3:])
    await nothing_leaked(bench, heard, replies)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 503])
async def test_an_engine_that_repeats_its_key_is_not_repeated(bench: Bench, heard: Overheard, status: int) -> None:
    """As OpenAI does: "Incorrect API key provided"."""
    replies = []
    words = f"Incorrect API key provided: {BACKEND}."
    for body in (
        {"error": {"message": words, "type": "x", "code": BACKEND, "param": BACKEND}},
        {"error": words},
        words,
    ):
        bench.oai.script = [Status(status, body, headers={"x-echo": BACKEND, "set-cookie": BACKEND})]
        for api in ("openai", "ollama"):
            replies += [await bench.chat(api, OAI, stream=stream, headers=HOSTILE) for stream in (True, False)]
    bench.oai.script = [role(), "some", {"error": {"message": words, "code": status}}]
    replies.append(await bench.chat("openai", OAI, stream=True, headers=HOSTILE))
    replies.append(await broken_chat(bench))
    if status not in (401, 403):  # of these clients are told no words at all
        assert all("…".encode() in reply.body for reply in replies[-2:])
    await nothing_leaked(bench, heard, replies)


async def broken_chat(bench: Bench) -> Reply:
    """A stream in Ollama's form that ends with an error, and then breaks off."""
    body, data = {"model": OAI, "messages": MESSAGES}, bytearray()
    async with bench.client.stream("POST", "/api/chat", json=body, headers=HOSTILE) as response:
        with contextlib.suppress(httpx.RemoteProtocolError):
            async for piece in response.aiter_raw():
                data += piece
    return Reply(response.status_code, response.headers, bytes(data), 0.0)


async def test_while_a_job_is_under_way_the_store_has_no_key(bench: Bench, heard: Overheard) -> None:
    go = asyncio.Event()

    def held(request: Recorded) -> list[Piece]:
        return [chunk({"content": "one"}), Wait(go), *answer("openai", "two")]

    bench.oai.script = held
    asking = asyncio.create_task(bench.chat("openai", OAI, stream=True, headers=HOSTILE | MORE_HOSTILE))
    await bench.oai.received()
    running = await holding(bench.site, [CLIENT, BACKEND, "s3cr3t", "Zm9v", "spy@mail", "conv-spy"])
    go.set()
    reply = await asking
    assert running == {}
    assert reply.content.endswith("two")
    await nothing_leaked(bench, heard, [reply])
