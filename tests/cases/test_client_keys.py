"""Whose key opens what: a client's opens the gateway and goes no further, a back end's is for that back end alone."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.cases.reply import Reply
from tests.cases.rig import BOTH, OAI, OLL, Bench, run_bench, settings
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


# Fields of bodies ----------------------------------------------------------------------------------------------------

ALLOWED: dict[str, set[str]] = {
    OAI: {
        *("model", "messages", "stream", "stream_options", "input", "encoding_format", "chat_template_kwargs"),
        *("truncate_prompt_tokens", "truncation_side"),
    },
    OLL: {"model", "messages", "stream", "options", "keep_alive", "input", "truncate", "think"},
}
STRANGE: dict[str, Any] = {
    "priority": -1000,
    "request_id": "theirs",
    "session_id": "theirs",
    "id_slot": 0,
    "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "evil.example"},
    "ec_transfer_params": {},
    "stream_interval": 1000,
    "chat_template": "{{ evil }}",
    "mm_processor_kwargs": {"path": "/etc/passwd"},
    "media_io_kwargs": {},
    "prompt_logprobs": 5,
    "return_token_ids": True,
    "data_parallel_rank": 1,
    "template": "{{ .Evil }}",
    "raw": True,
    "context": [1, 2],
    "remote_host": "http://evil.example",
    "path": "/etc/passwd",
    "modelfile": "FROM /etc/passwd",
    "adapters": {"x": "y"},
    "response_fields": ["all"],
    "return_progress": True,
    "slot_id": 3,
    "input_prefix": "x",
    "webhook": "http://evil.example",
    "store": True,
    "background": True,
    "prediction": None,
    "__proto__": {"a": 1},
    "constructor": {},
    "": 1,
    "\u0000": 1,
}
STRANGE_OPTIONS = {"vocab_only": True, "numa": True, "low_vram": True, "f16_kv": False, "use_mlock": True, "evil": "/x"}


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/v1/embeddings", "/api/embed"])
async def test_fields_that_nobody_knows_reach_no_engine(bench: Bench, heard: Overheard, path: str, model: str) -> None:
    body = STRANGE | {"model": model, "stream": False, "messages": MESSAGES, "input": "hi", "options": STRANGE_OPTIONS}
    reply = await bench.ask(path, body, headers=HOSTILE)
    assert reply.status == 200, reply.body
    (sent,) = [request.json() for request in heard.requests if request.method == "POST" and b"hi" in request.body]
    assert set(sent) <= ALLOWED[model], set(sent) - ALLOWED[model]
    assert set(sent.get("options", {})) == set()
    assert "evil" not in json.dumps(sent)


@pytest.mark.parametrize(
    ("path", "fields", "kept"),
    [
        ("/api/pull", {"insecure": False, "username": "u", "password": "p"}, {"insecure", "username", "password"}),
        ("/api/create", {"from": OLL, "system": "s", "quantize": "q4_K_M"}, {"from", "system", "quantize"}),
    ],
)
async def test_nor_do_they_where_models_come_and_go(
    bench: Bench, heard: Overheard, path: str, fields: dict[str, Any], kept: set[str]
) -> None:
    strange = {name: value for name, value in STRANGE.items() if name not in ("adapters", "template")}
    reply = await bench.ask(path, strange | {"model": "m-field", "stream": False} | fields, headers=HOSTILE)
    assert reply.status == 200, reply.body
    (sent,) = [request.json() for request in heard.of(path)]
    assert set(sent) == {"model", "stream"} | kept


async def test_no_address_in_a_request_is_called(bench: Bench, heard: Overheard) -> None:
    """Not for a picture, a tool, a file, a document or a recording: neither by us nor, unasked, by an engine."""
    called = asyncio.Event()

    async def trap(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.close()

    server = await asyncio.start_server(trap, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x.png"
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": url},
        {"type": "input_image", "image_url": url},
        {"type": "input_audio", "input_audio": {"data": url, "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": url}},
        {"type": "video_url", "video_url": {"url": url}},
        {"type": "input_file", "file_url": url},
        {"type": "file", "file": {"file_data": url}},
        {"type": "image", "source": {"type": "url", "url": url}},
        {"type": "document", "source": {"type": "url", "url": url}},
    ]
    tools = [
        {"type": "mcp", "server_url": url, "server_label": "x"},
        {"type": "web_fetch_20250910", "name": "web_fetch"},
        {"type": "function", "function": {"name": "f", "parameters": {"$ref": url}}},
    ]
    try:
        for model in BOTH:
            for part in parts:
                messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}, part]}]
                for path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
                    body = {"model": model, "stream": False, "max_tokens": 9, "messages": messages}
                    assert (await bench.ask(path, body, headers=HOSTILE)).status == 400, (path, part)
                content = [{"role": "user", "content": [part]}]
                assert (await bench.ask("/v1/responses", {"model": model, "input": content})).status in (400, 401)
            for image in (url, url.replace("http", "HTTP"), f" {url}", "file:///etc/passwd", "ftp://x/y", "//x/y"):
                body = {"model": model, "stream": False, "messages": [MESSAGES[0] | {"images": [image]}]}
                assert (await bench.ask("/api/chat", body, headers=HOSTILE)).status == 400, image
            for tool in tools:
                body = {
                    "model": model,
                    "stream": False,
                    "messages": MESSAGES,
                    "tools": [tool],
                    "documents": [{"url": url}],
                }
                await bench.ask("/v1/chat/completions", body, headers=HOSTILE)
        assert not called.is_set()
    finally:
        server.close()
