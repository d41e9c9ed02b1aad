"""What a gateway is to clients before any word is understood: paths, methods, encodings, origins."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from buffer.setting_values import OLLAMA_ORIGINS, ApiKey
from tests.gateway.rig import MODEL, Rig, ollama, rig

CHATS = ["/api/chat", "/v1/chat/completions"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/tags/", 200),
        ("HEAD", "/api/version/", 200),
        ("GET", "//api/tags", 200),
        ("GET", "/v1//models/", 200),
        ("GET", f"/v1/models/{MODEL}/", 200),
        ("GET", "//", 200),
        ("GET", "/health/", 200),
        ("POST", "/api/show/", 200),
        ("POST", "/api/chat/", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("POST", "/v1/embeddings/", 404),
        ("POST", "//v1/messages/", 404),
        ("GET", "/api/nothing/", 404),
    ],
)
async def test_slashes_too_many(method: str, path: str, status: int) -> None:
    async with rig() as r:
        model = MODEL if "show" in path else "nobody"
        body = {"model": model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "input": "x"}
        got = await r.client.request(method, f"{r.url}{path}", json=body if method == "POST" else None)
        assert got.status_code == status
        if status == 404 and method == "POST":
            assert "nobody" in got.text


async def test_a_slash_too_many_is_no_way_round_the_keys() -> None:
    async with rig(api_keys=[ApiKey(name="a", key="k")]) as r:
        for path in ("/api/tags/", "//api/tags", "/health/../api/tags", "//v1/models/"):
            assert (await r.client.get(f"{r.url}{path}")).status_code in {401, 404}, path


@pytest.mark.parametrize("path", ["/", "/api/version", "/api/tags", "/health"])
async def test_head_where_ollama_has_it(path: str) -> None:
    async with rig() as r:
        got, full = await r.client.head(path), await r.client.get(path)
        assert (got.status_code, got.content) == (200, b"")
        assert got.headers["content-length"] == str(len(full.content))
        assert got.headers["content-type"] == full.headers["content-type"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/tags", {"GET", "HEAD", "OPTIONS"}),
        ("GET", "/api/chat", {"POST", "OPTIONS"}),
        ("POST", "/api/delete", {"DELETE", "OPTIONS"}),
        ("GET", "/api/blobs/sha256:x", {"HEAD", "POST", "OPTIONS"}),
        ("GET", "/v1/embeddings", {"POST", "OPTIONS"}),
        ("DELETE", "/v1/messages", {"POST", "OPTIONS"}),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(method: str, path: str, allowed: set[str]) -> None:
    async with rig() as r:
        got = await r.client.request(method, path)
        assert got.status_code == 405
        assert set(got.headers["allow"].split(", ")) == allowed
        if path == "/v1/messages":
            assert got.json()["type"] == "error"
        elif path.startswith("/v1"):
            assert got.json()["error"]["message"]
        else:
            assert got.text == "405 method not allowed"


async def test_what_there_is_not_of_ollamas_cloud() -> None:
    async with rig() as r:
        assert (await r.client.get("/api/status")).json()["cloud"]["disabled"] is True
        for method, path, status in (
            ("POST", "/api/me", 501),
            ("POST", "/api/signout", 501),
            ("DELETE", "/api/user/keys/abc", 501),
            ("POST", "/api/experimental/web_search", 404),
            ("POST", "/api/experimental/web_fetch", 404),
            ("GET", "/api/experimental/model-recommendations", 404),
        ):
            got = await r.client.request(method, path, json={} if method == "POST" else None)
            assert got.status_code == status
            assert isinstance(got.json()["error"], str)


class TestOrigins:
    """A page with OpenAI's own package: its streams carry headers that only a preflight can allow."""

    WANTED = "authorization,content-type,x-stainless-helper-method,x-stainless-timeout,x-stainless-os"
    GOOD = "http://localhost:5173"

    @asynccontextmanager
    async def _rig(self) -> AsyncIterator[Rig]:
        keys = [ApiKey(name="a", key="k")]
        async with rig(api_keys=keys, cors_origins=[*OLLAMA_ORIGINS, "http://ok.example"]) as r:
            yield r

    @pytest.mark.parametrize("path", [*CHATS, "/api/tags"])
    @pytest.mark.parametrize("origin", [GOOD, "http://ok.example"])
    async def test_a_preflight_needs_no_key_and_queues_nothing(self, path: str, origin: str) -> None:
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": self.WANTED}
        async with self._rig() as r:
            got = await r.client.options(path, headers={"Origin": origin, **asks})
            assert got.status_code == 204
            assert got.headers["access-control-allow-origin"] == origin
            assert got.headers["access-control-allow-headers"] == self.WANTED
            assert "POST" in got.headers["access-control-allow-methods"]
            assert all(depth.waiting == 0 for depth in (await r.lanes.depths()).values())
            evil = await r.client.options(path, headers={"Origin": "http://evil.example", **asks})
            assert "access-control-allow-origin" not in evil.headers

    @pytest.mark.parametrize("path", CHATS)
    async def test_answers_and_refusals_name_the_origin_too(self, path: str) -> None:
        async with self._rig() as r, asyncio.TaskGroup() as group:
            headers = {"Origin": self.GOOD, "Authorization": "Bearer k"}
            sent = group.create_task(r.client.post(path, json=ollama(stream=True), headers=headers))
            await r.hands.answer("hi")
            refused = await r.client.post(path, json=ollama(), headers={"Origin": self.GOOD})
            unknown = await r.client.post(path, json=ollama("nobody"), headers=headers)
            assert [(await sent).status_code, refused.status_code, unknown.status_code] == [200, 401, 404]
            for got in (await sent, refused, unknown):
                assert got.headers["access-control-allow-origin"] == self.GOOD


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


class TestPackedRequests:
    @pytest.mark.parametrize(
        ("encoding", "pack"),
        [
            ("gzip", gzip.compress),
            ("x-gzip", gzip.compress),
            ("GZIP", gzip.compress),
            ("deflate", zlib.compress),
            ("deflate", _raw_deflate),
        ],
    )
    @pytest.mark.parametrize("path", CHATS)
    async def test_they_are_unpacked(self, path: str, encoding: str, pack: Any) -> None:
        async with rig() as r, asyncio.TaskGroup() as group:
            body = pack(json.dumps(ollama(stream=False)).encode())
            sent = group.create_task(r.client.post(path, content=body, headers={"Content-Encoding": encoding}))
            await r.hands.answer("hi")
            assert (await sent).status_code == 200
            assert "content-encoding" not in (await sent).headers

    @pytest.mark.parametrize(
        ("encoding", "body", "status"),
        [
            ("gzip", b'{"model":"x"}', 400),
            ("deflate", b'{"model":"x"}', 400),
            ("gzip", gzip.compress(b"{}" * 1000, mtime=0)[:-10], 400),
            ("br", b"x", 415),
            ("zstd", b"(\xb5/\xfd", 415),
            ("gzip, gzip", gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0), 415),
        ],
    )
    @pytest.mark.parametrize("path", [*CHATS, "/api/show", "/api/pull", "/v1/embeddings"])
    async def test_what_cannot_be_unpacked(self, path: str, encoding: str, body: bytes, status: int) -> None:
        async with rig() as r:
            got = await r.client.post(path, content=body, headers={"Content-Encoding": encoding})
            assert got.status_code == status
            error = got.json()["error"]
            assert isinstance(error["message"] if path.startswith("/v1") else error, str)
            if status == 415:
                assert got.headers["accept-encoding"] == "gzip, deflate"

    async def test_a_bomb_is_not_unpacked(self) -> None:
        # A kilobyte that stands for a megabyte, a thousand times.
        packer = zlib.compressobj(9, wbits=31)
        part = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
        again = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
        bomb = part + again * 1023
        assert len(bomb) < 2 << 20
        async with rig(max_body_bytes=8 << 20) as r:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            got = await r.client.post("/api/chat", content=bomb, headers={"Content-Encoding": "gzip"})
            assert got.status_code == 413
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
