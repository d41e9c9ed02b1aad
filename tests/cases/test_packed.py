"""Engines that pack their answers, and clients that pack their requests: everybody gets what they can read."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.reply import Reply, refused
from tests.cases.rig import BOTH, OAI, OLL, Bench, rss, run_bench
from tests.cases.scripts import oai, oll, streams
from tests.rig.connection import Recorded
from tests.rig.script import DONE, Flavour, Piece, Sleep, Status, done, encode, finish, role, usage
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

MB = 1024 * 1024
ACCEPTS = (None, "gzip, deflate, br, zstd", "br", "gzip", "identity;q=0, gzip", "*")
LISTS = ("/v1/models", "/api/tags", "/api/version", "/api/ps", "/", "/health", "/metrics", f"/v1/models/{OAI}")
ROUTES = ("/api/chat", "/v1/chat/completions")


def packed(status: Status) -> Status:
    return Status(status.code, gzip.compress(status.encoded()), status.content_type)


def packing(flavour: Flavour, model: str) -> Scripted:
    """An engine all of whose answers are gzip, with the length of what was packed where they are whole."""
    engine = Scripted(flavour, kind="vllm" if flavour == "openai" else "", models=[model])
    pages = {path: page if isinstance(page, Status) else Status(200, page) for path, page in engine.pages.items()}
    engine.pages = {path: packed(page) for path, page in pages.items()}
    engine.headers = {"Content-Encoding": "gzip"}
    return engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(packing("openai", OAI), packing("ollama", OLL)) as found:
        yield found


def events(request: Recorded) -> list[Piece]:
    if request.path.startswith("/api/"):
        return ["o", "k", done()]
    return [role(), "o", "k", finish(), usage(7, 2), DONE]


def flushed(request: Recorded) -> list[Piece]:
    """A stream, packed event by event, with a pause in the middle."""
    packer = zlib.compressobj(wbits=31)
    flavour: Flavour = "ollama" if request.path.startswith("/api/") else "openai"
    pieces: list[Piece] = []
    for event in events(request):
        assert isinstance(event, bytes | str | dict)
        pieces.append(packer.compress(encode(flavour, event)) + packer.flush(zlib.Z_SYNC_FLUSH))
        if event == "o":
            pieces.append(Sleep(0.6))
    return [*pieces, packer.flush()]


def with_length(request: Recorded) -> list[Piece]:
    """The answer in one piece, whose length the head tells."""
    if not streams(request):
        (whole,) = oll(request, "ok") if request.path.startswith("/api/") else oai(request, "ok")
        assert isinstance(whole, Status)
        return [packed(whole)]
    flavour: Flavour = "ollama" if request.path.startswith("/api/") else "openai"
    data = b"".join(encode(flavour, e) for e in events(request) if isinstance(e, bytes | str | dict))
    return [packed(Status(200, data, "application/x-ndjson" if flavour == "ollama" else "text/event-stream"))]


def unpacked(reply: Reply) -> bytes:
    """The body, after checking that the head tells the truth about it."""
    if "content-length" in reply.headers:
        assert int(reply.headers["content-length"]) == len(reply.body)
        assert "transfer-encoding" not in reply.headers
    encoding = reply.headers.get("content-encoding", "identity")
    if encoding == "gzip":
        return gzip.decompress(reply.body)
    assert encoding == "identity"
    return reply.body


@pytest.mark.parametrize("path", LISTS)
async def test_lists_are_readable_whatever_the_client_accepts(bench: Bench, path: str) -> None:
    for accept in ACCEPTS:
        reply = await bench.get(path, headers={"accept-encoding": accept}, raw=True)
        assert reply.status == 200
        body = unpacked(reply)
        if reply.type == "application/json":
            json.loads(body)
        if path == "/v1/models":
            assert {card["id"] for card in json.loads(body)["data"]} == {OAI, OLL}


@pytest.mark.parametrize(("script", "stream"), [(flushed, True), (with_length, True), (with_length, False)])
@pytest.mark.parametrize("model", BOTH)
async def test_chats_are_readable_too(bench: Bench, model: str, stream: bool, script: Any) -> None:
    bench.engine(model).script = script
    for path in ROUTES:
        for accept in ACCEPTS if script is with_length else ACCEPTS[:3]:
            body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
            reply = await bench.ask(path, body, headers={"accept-encoding": accept}, raw=True)
            assert reply.status == 200, reply.body
            plain = Reply(reply.status, reply.headers, unpacked(reply), reply.took_s)
            assert plain.content == "ok"
            if script is flushed:
                # Not kept back until the end: the engine paused after its first word.
                assert reply.took_s - reply.first_s > 0.4, (reply.first_s, reply.took_s)


@pytest.mark.parametrize("path", ROUTES)
async def test_a_packed_refusal(bench: Bench, path: str) -> None:
    bench.oai.script = [packed(Status(400, {"error": {"message": "limit 4096", "type": "BadRequestError"}}))]
    bench.oll.script = [packed(Status(400, {"error": "limit 4096"}))]
    for model in BOTH:
        for stream in (True, False):
            for accept in ACCEPTS:
                body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
                reply = await bench.ask(path, body, headers={"accept-encoding": accept}, raw=True)
                told = Reply(reply.status, reply.headers, unpacked(reply), reply.took_s)
                assert refused(told, path)
                assert b"limit 4096" in told.body


# Packed requests -------------------------------------------------------------------------------------------------


def body_for(model: str, content: str = "hi") -> bytes:
    body = {"model": model, "stream": False, "messages": [{"role": "user", "content": content}]}
    return json.dumps(body).encode()


@pytest.mark.parametrize("path", ROUTES)
async def test_a_packed_request_is_read(bench: Bench, path: str) -> None:
    bench.oai.script = bench.oll.script = with_length
    for model in BOTH:
        for encoding in ("gzip", "GZIP", "x-gzip", "identity"):
            body = body_for(model, "温度 " * 50_000)
            data = body if encoding == "identity" else gzip.compress(body)
            reply = await bench.ask(path, data, headers={"content-encoding": encoding})
            assert reply.content == "ok"
            assert bench.engine(model).requests[-1].json()["messages"][0]["content"].startswith("温度")


def bomb(head: bytes, size: int) -> bytes:
    """Gzip that unpacks to ``head`` and ``size`` zeros. The end is missing, but who reads so far has lost."""
    packer = zlib.compressobj(9, wbits=31)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(4 * MB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return begin + block * (size // (4 * MB))


WRONG = {
    "a false label": ("gzip", body_for(OLL)),
    "nothing inside": ("gzip", gzip.compress(b"")),
    "a head and no more": ("gzip", gzip.compress(body_for(OLL))[:12]),
    "cut short": ("gzip", gzip.compress(body_for(OLL))[:-12]),
    "broken in the middle": ("gzip", gzip.compress(body_for(OLL))[:15] + b"\xff" * 20),
    "no JSON inside": ("gzip", gzip.compress(b"hello")),
    "packed twice": ("gzip", gzip.compress(gzip.compress(body_for(OLL)))),
    "another encoding": ("br", body_for(OLL)),
    "several encodings": ("gzip, gzip", gzip.compress(gzip.compress(body_for(OLL)))),
    "none that exists": ("chocolate", body_for(OLL)),
}


@pytest.mark.parametrize("path", [*ROUTES, "/api/generate", "/api/show", "/api/embed", "/v1/embeddings"])
async def test_what_cannot_be_unpacked_is_refused(bench: Bench, path: str) -> None:
    for name, (encoding, data) in WRONG.items():
        reply = await bench.ask(path, data, headers={"content-encoding": encoding})
        assert reply.status in (400, 415), (name, reply.status, reply.body)
        assert refused(reply, path, reply.status), (name, reply.body)
        assert reply.status == 400 or encoding != "gzip"
    assert not bench.oll.requests


def reset_peak(pid: int) -> None:
    with open(f"/proc/{pid}/clear_refs", "w") as switch:
        switch.write("5")


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("head", [b"", b'{"model":"m-oll","messages":[{"role":"user","content":"'])
async def test_a_megabyte_that_unpacks_to_a_thousand(bench: Bench, head: bytes, path: str) -> None:
    data = bomb(head, 1024 * MB)
    assert len(data) < 1.5 * MB
    pid = bench.site.gateway.pid
    before = rss(pid)
    reset_peak(pid)
    began = time.perf_counter()
    reply = await bench.ask(path, data, headers={"content-encoding": "gzip"})
    assert reply.status in (400, 413), reply.body
    assert refused(reply, path, reply.status)
    assert time.perf_counter() - began < 10
    assert rss(pid, peak=True) - before < 100 * MB, (before, rss(pid, peak=True))
