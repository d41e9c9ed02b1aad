"""What holds for every answer: origins, keys, methods, paths, sizes."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from buffer.inbox import Inbox
from buffer.setting_values import ApiKey
from gateway.delivery import Timing
from tests.gateway.rig import ollama, rig, until

PAGE = "http://localhost:3000"


@pytest.mark.parametrize("path", ["/", "/api/version", "/api/tags"])
async def test_head(path: str) -> None:
    async with rig() as r:
        whole = await r.client.get(path)
        got = await r.client.head(path)
        assert got.status_code == whole.status_code == 200
        assert got.content == b""
        assert got.headers["content-type"] == whole.headers["content-type"]


async def test_signs_of_life() -> None:
    async with rig() as r:
        got = await r.client.get("/")
        assert got.text == "Ollama is running"
        assert got.headers["content-type"].startswith("text/plain")
        version = (await r.client.get("/api/version")).json()["version"]
        assert all(part.isdigit() for part in version.split("."))


async def test_preflights() -> None:
    async with rig() as r:
        asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a, x-b"}
        got = await r.client.options("/api/chat", headers=asked)
        assert got.status_code == 204
        assert got.content == b""
        assert got.headers["access-control-allow-origin"] == PAGE
        assert got.headers["access-control-allow-headers"] == "x-a, x-b"
        got = await r.client.options("/api/chat", headers=asked | {"Origin": "https://evil.example"})
        assert got.status_code == 204
        assert "access-control-allow-origin" not in got.headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/tags", 200),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/chat", 405),
        ("POST", "/v1/chat/completions", 400),
        ("POST", "/api/chat", 404),
    ],
)
async def test_every_answer_may_be_read_by_allowed_pages(method: str, path: str, status: int) -> None:
    body = b"" if path.startswith("/v1") else json.dumps(ollama("nobody")).encode()
    async with rig() as r:
        got = await r.client.request(method, path, content=body, headers={"Origin": PAGE})
        assert got.status_code == status
        assert got.headers["access-control-allow-origin"] == PAGE
        assert got.headers["x-doublebuffer"] == "1"
        got = await r.client.request(method, path, content=body, headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in got.headers


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions", "/api/show"])
async def test_other_pages_cannot_have_work_done(path: str) -> None:
    """A plain text body needs no preflight."""
    headers = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
    async with rig() as r:
        got = await r.client.post(path, content=json.dumps(ollama("nobody")), headers=headers)
        assert got.status_code == 403
        assert (await r.client.get("/api/tags", headers=headers)).status_code == 200
    async with rig(host="0.0.0.0") as r:
        for same in ({"Host": "evil.example"}, {"Sec-Fetch-Site": "same-origin"}):
            got = await r.client.post(path, content=json.dumps(ollama("nobody")), headers=headers | same)
            assert got.status_code == 404
    async with rig(api_keys=[ApiKey(name="a", key="k")]) as r:
        known = headers | {"Authorization": "Bearer k"}
        assert (await r.client.post(path, content=json.dumps(ollama("nobody")), headers=known)).status_code == 404


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions", "/api/show", "/api/delete"])
async def test_a_page_whose_name_was_made_to_point_here_gets_nothing(path: str) -> None:
    """To the browser such a page is our own; only the name that it calls us by is foreign."""
    page = {"Origin": "http://evil.example:11435", "Host": "evil.example:11435", "Sec-Fetch-Site": "same-origin"}
    async with rig() as r:
        for method, at in (("POST", path), ("GET", "/api/tags"), ("GET", "/metrics"), ("DELETE", "/api/delete")):
            got = await r.client.request(method, at, content=json.dumps(ollama("nobody")), headers=page)
            assert got.status_code == 403
            assert "DOUBLEBUFFER_CORS_ORIGINS" in got.text
    async with rig(cors_origins=["http://evil.example:11435"]) as r:
        assert (await r.client.get("/api/tags", headers=page)).status_code == 200
    async with rig(api_keys=[ApiKey(name="a", key="k")]) as r:
        assert (await r.client.get("/api/tags", headers=page | {"Authorization": "Bearer k"})).status_code == 200
        assert (await r.client.get("/api/tags", headers=page)).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/nothing", 404), ("GET", "/nothing", 404), ("PUT", "/api/tags", 405), ("GET", "/api/chat", 405)],
)
async def test_unknown_paths_and_wrong_methods_of_ollamas(method: str, path: str, status: int) -> None:
    async with rig() as r:
        got = await r.client.request(method, path)
        assert got.status_code == status
        assert got.text == {404: "404 page not found", 405: "405 method not allowed"}[status]
        assert got.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("GET", "/v1/chat/completions", 405), ("PUT", "/v1/models", 405)],
)
async def test_unknown_paths_and_wrong_methods_of_openais(method: str, path: str, status: int) -> None:
    async with rig() as r:
        got = await r.client.request(method, path)
        assert got.status_code == status
        assert got.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions", "/api/show"])
async def test_a_body_that_is_too_large(path: str) -> None:
    async with rig(max_body_bytes=1000) as r:
        got = await r.client.post(path, json=ollama(pad="x" * 1000))
        assert got.status_code == 413
        error = got.json()["error"]
        assert "1000" in (error["message"] if path.startswith("/v1") else error)
        bomb = gzip.compress(json.dumps(ollama(pad="x" * 100_000)).encode())
        got = await r.client.post(path, content=bomb, headers={"Content-Encoding": "gzip"})
        assert got.status_code == 413
        assert (await r.client.get("/api/version")).status_code == 200


async def test_a_compressed_chat() -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        body = gzip.compress(json.dumps(ollama(stream=False)).encode())
        sent = group.create_task(r.client.post("/api/chat", content=body, headers={"Content-Encoding": "gzip"}))
        await r.hands.answer("hi")
        assert (await sent).json()["message"]["content"] == "hi"


async def test_keys() -> None:
    async with rig(api_keys=[ApiKey(name="ann", key="k-1")]) as r:
        for path in ("/", "/health", "/api/version"):
            assert (await r.client.get(path)).status_code == 200
        assert (await r.client.options("/api/chat")).status_code == 204
        for method, path in (("GET", "/api/tags"), ("POST", "/api/chat"), ("GET", "/metrics"), ("GET", "/docs")):
            got = await r.client.request(method, path)
            assert (got.status_code, got.json()) == (401, {"error": "unauthorized"})
        for path in ("/v1/models", "/v1/chat/completions"):
            got = await r.client.post(path, json=ollama(), headers={"Authorization": "Bearer k-2"})
            assert (got.status_code, got.json()["error"]["code"]) == (401, "invalid_api_key")
        assert (await r.client.get("/api/tags", headers={"Authorization": "Bearer k-1"})).status_code == 200
        assert (await r.client.get("/v1/models", headers={"x-api-key": "k-1"})).status_code == 200
        assert r.metric('requests_total{api="openai",lane="none",outcome="client_error"}') == 1


@pytest.mark.parametrize(
    ("keys", "headers", "user"),
    [
        ([], {}, "address:127.0.0.1"),
        ([], {"X-OpenWebUI-User-Id": "u1"}, "person:u1"),
        ([ApiKey(name="ann", key="k")], {"x-api-key": "k", "X-OpenWebUI-User-Id": "u1"}, "key:ann"),
        ([ApiKey(name="ui", key="k", trusted=True)], {"x-api-key": "k", "X-OpenWebUI-User-Id": "u1"}, "person:u1"),
    ],
)
async def test_whose_turn_it_is(keys: list[ApiKey], headers: dict[str, str], user: str) -> None:
    async with rig(api_keys=keys) as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post("/api/chat", json=ollama(), headers=headers))
        job = await r.hands.answer("x")
        assert job.user == user
        await sent


async def test_a_key_may_allow_higher_lanes() -> None:
    keys = [ApiKey(name="ann", key="k", lanes=["thinking"])]
    async with rig(api_keys=keys) as r, asyncio.TaskGroup() as group:
        headers = {"x-api-key": "k", "X-Doublebuffer-Lane": "thinking"}
        sent = group.create_task(r.client.post("/api/chat", json=ollama(), headers=headers))
        assert (await r.hands.answer("x")).lane == "thinking"
        await sent


async def test_health_and_metrics() -> None:
    async with rig() as r:
        assert (await r.client.get("/health")).json() == {"status": "ok"}
        assert (await r.client.get("/health/ready")).status_code == 200
        text = (await r.client.get("/metrics")).text
        assert 'doublebuffer_queue_depth{lane="fast"} 0.0' in text
        assert 'doublebuffer_backend_up{backend="engine"} 1.0' in text
        assert 'doublebuffer_in_flight_limit{backend="engine"} 8.0' in text
        assert "doublebuffer_workers 1.0" in text


async def test_a_gateway_that_reads_no_answers_any_more_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = asyncio.Event()

    async def fails(_: Inbox) -> None:
        await broken.wait()
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(Inbox, "run", fails)
    async with rig() as r:
        assert (await r.client.get("/health")).status_code == 200
        broken.set()

        async def is_told() -> bool:
            return (await r.client.get("/health")).status_code == 503

        await until(is_told)
        assert (await r.client.post("/api/chat", json=ollama())).status_code == 503


async def test_not_ready_without_a_worker() -> None:
    async with rig(show=False, timing=Timing(cold_s=0)) as r:
        got = await r.client.get("/health/ready")
        assert got.status_code == 503
        assert "worker" in got.json()["reason"]
        assert (await r.client.get("/health")).status_code == 200


async def test_the_documentation_shows_the_chats() -> None:
    async with rig() as r:
        paths = (await r.client.get("/openapi.json")).json()["paths"]
        assert {"/api/chat", "/v1/chat/completions", "/api/tags", "/v1/models"} <= set(paths)
        assert (await r.client.head("/docs")).status_code == 200
        page = await r.client.get("/docs")
        assert page.status_code == 200
        assert all(f"<code>{path}</code>" in page.text for path in paths)
        assert "://" not in page.text
        assert "<script" not in page.text
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert (await r.client.get("/redoc")).status_code == 404
