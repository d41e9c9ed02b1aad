"""Fields of bodies, and addresses in them: an engine is sent what is known to be meant for it, and nobody is called."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.rig import BOTH, OAI, OLL, Bench
from tests.cases.scripts import plain
from tests.cases.traces import Overheard

pytestmark = pytest.mark.asyncio(loop_scope="module")

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def heard(bench: Bench) -> Overheard:
    overheard = Overheard()
    overheard.listen(bench.oai, bench.oll)
    bench.oai.script = bench.oll.script = plain
    return overheard


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
    reply = await bench.ask(path, body)
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
    reply = await bench.ask(path, strange | {"model": "m-field", "stream": False} | fields)
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
                    assert (await bench.ask(path, body)).status == 400, (path, part)
                content = [{"role": "user", "content": [part]}]
                assert (await bench.ask("/v1/responses", {"model": model, "input": content})).status == 400
            for image in (url, url.replace("http", "HTTP"), f" {url}", "file:///etc/passwd", "ftp://x/y", "//x/y"):
                body = {"model": model, "stream": False, "messages": [MESSAGES[0] | {"images": [image]}]}
                assert (await bench.ask("/api/chat", body)).status == 400, image
            for tool in tools:
                body = {
                    "model": model,
                    "stream": False,
                    "messages": MESSAGES,
                    "tools": [tool],
                    "documents": [{"url": url}],
                }
                await bench.ask("/v1/chat/completions", body)
        assert not called.is_set()
    finally:
        server.close()
