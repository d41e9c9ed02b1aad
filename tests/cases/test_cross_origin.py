"""Pages of other origins: what a browser asks before it calls, and whether it may read the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from buffer.setting_values import OLLAMA_ORIGINS
from tests.cases.reply import Reply, refused
from tests.cases.rig import OLL, Bench, run_bench, settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

OK = "http://ok.example"
KEY = {"authorization": "Bearer sesame"}
ROUTES = (
    *("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/models"),
    *("/api/chat", "/api/generate", "/api/tags", "/api/embed", "/api/show", "/api/pull", "/nothing/here"),
)
WANTED = "authorization,content-type,x-stainless-helper-method,x-stainless-timeout,x-stainless-os"
MORE_WANTED = (
    "X-Stainless-Poll-Helper, X-Stainless-Retry-Count, X-Stainless-Lang",
    "openai-beta,openai-organization,openai-project",
    "x-api-key,anthropic-version,anthropic-dangerous-direct-browser-access",
    "idempotency-key, x-doublebuffer-lane,x-request-id",
)
ALLOWED = (
    OK,
    "http://localhost:5173",
    "https://localhost",
    "http://127.0.0.1:3000",
    "app://obsidian.md",
    "tauri://localhost",
)
FOREIGN = (
    *("http://evil.example", "http://ok.example.evil.example", "https://ok.example", "http://ok.example:81"),
    *("http://localhost.evil.example", "http://evil.example/?http://localhost", "null", "http://xok.example"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    origins = ",".join([*OLLAMA_ORIGINS, OK])
    async with run_bench(more=settings(keys="ann:sesame", origins=origins), key="sesame") as found:
        yield found


async def preflight(bench: Bench, route: str, origin: str, wanted: str = WANTED, method: str = "POST") -> Reply:
    headers = {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": wanted,
        "content-type": None,
    }
    return await bench.ask(route, method="OPTIONS", headers=headers)


def words(value: str) -> set[str]:
    return {word.strip().lower() for word in value.split(",")}


def readable(reply: Reply, origin: str) -> bool:
    return reply.headers.get("access-control-allow-origin") in ("*", origin)


@pytest.mark.parametrize("route", ROUTES)
async def test_a_preflight_needs_no_key_and_allows_what_it_asks_for(bench: Bench, route: str) -> None:
    for origin in ALLOWED:
        for wanted in (WANTED, *MORE_WANTED):
            reply = await preflight(bench, route, origin, wanted)
            assert reply.status in (200, 204)
            assert readable(reply, origin), origin
            allowed = words(reply.headers["access-control-allow-headers"])
            assert allowed == {"*"} or words(wanted) <= allowed
            assert words(reply.headers["access-control-allow-methods"]) & {"post", "*"}
    assert not bench.oll.requests
    assert not bench.oai.requests
    assert await bench.site.leftovers(within_s=0) == []


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "HEAD"])
async def test_each_method_that_a_route_has(bench: Bench, method: str) -> None:
    reply = await preflight(bench, "/api/delete", OK, method=method)
    assert method.lower() in words(reply.headers["access-control-allow-methods"])


@pytest.mark.parametrize("api", ["openai", "ollama"])
async def test_answers_can_be_read(bench: Bench, api: str) -> None:
    """Streams, whole answers, and errors of each kind."""
    for origin in ALLOWED:
        for stream in (True, False):
            reply = await bench.chat(api, OLL, stream=stream, headers={"origin": origin, **KEY})
            assert reply.content
            assert readable(reply, origin)
    path = "/api/chat" if api == "ollama" else "/v1/chat/completions"
    no_key = await bench.chat(api, OLL, headers={"origin": OK})
    wrong_key = await bench.chat(api, OLL, headers={"origin": OK, "authorization": "Bearer x"})
    no_model = await bench.chat(api, "m-nobody", headers={"origin": OK, **KEY})
    no_body = await bench.ask(path, b"{", headers={"origin": OK, **KEY})
    for reply, status in ((no_key, 401), (wrong_key, 401), (no_model, 404), (no_body, 400)):
        assert refused(reply, path, status), (reply.status, reply.body)
        assert readable(reply, OK)


async def test_what_is_no_route_can_be_read_too(bench: Bench) -> None:
    for path, method, status in (("/v1/nothing", "POST", 404), ("/api/tags", "PATCH", 405), ("/v1/models", "GET", 200)):
        reply = await bench.ask(path, {}, method=method, headers={"origin": OK, **KEY})
        assert reply.status in (status, 404)
        assert readable(reply, OK)


async def test_foreign_pages_are_not_let_in(bench: Bench) -> None:
    for origin in FOREIGN:
        for reply in (
            await preflight(bench, "/v1/chat/completions", origin),
            await bench.chat("openai", OLL, headers={"origin": origin, **KEY}),
            await bench.get("/api/tags", headers={"origin": origin, **KEY}),
        ):
            assert "access-control-allow-origin" not in reply.headers, origin


async def test_without_an_origin_nothing_is_said(bench: Bench) -> None:
    reply = await bench.chat("openai", OLL, headers=KEY)
    assert reply.content
    assert "access-control-allow-origin" not in reply.headers
