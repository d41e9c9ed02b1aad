"""Bodies and paths made to break parsers or to get round a check: each is refused, and nothing else happens."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from buffer.setting_values import ApiKey
from tests.gateway.rig import PLAIN, Rig, rig

ROUTES = (
    *("/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show", "/api/pull", "/api/create"),
    *("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"),
    "/v1/messages/count_tokens",
)
DEEP = 100_000


def nested(where: str) -> bytes:
    """A body that is deep in one field."""
    deep = b"[" * DEEP + b"]" * DEEP
    return b'{"model":"%b","messages":[{"role":"user","content":"x"}],"prompt":"x","input":"x","%b":%b}' % (
        PLAIN.encode(),
        where.encode(),
        deep,
    )


BODIES: dict[str, bytes] = {
    "brackets": b"[" * DEEP,
    "brackets that close": b"[" * DEEP + b"]" * DEEP,
    "braces": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "a deep model": nested("model"),
    "deep messages": nested("messages"),
    "a deep prompt": nested("prompt"),
    "deep input": nested("input"),
    "a zero byte": b'{"model":"a\0b"}',
    "an escaped zero": b'{"model":"a\\u0000b","messages":[{"role":"user","content":"\\u0000"}],"prompt":"","input":""}',
    "half a surrogate": b'{"model":"\\ud800","messages":[{"role":"user","content":"\\udfff"}]}',
    "bytes that are no text": b'{"model":"\xff\xfe"}',
    "a long number": b'{"model":"x","seed":' + b"9" * 100_000 + b"}",
    "a far exponent": b'{"model":"x","seed":1e999999999,"temperature":-1e400}',
    "a negative zero": b'{"model":"x","n":-0,"max_tokens":-0.0}',
    "not a number": b'{"model":"x","temperature":NaN,"top_p":Infinity}',
    "the same field often": b'{"model":"x",' * 1 + b'"model":"y",' * 20_000 + b'"model":"z"}',
    "many fields": b'{"model":"x"' + b"".join(b',"f%d":1' % number for number in range(50_000)) + b"}",
    "a name as large as a book": b'{"model":"' + b"m" * 2_000_000 + b'"}',
    "a comment": b'{"model":"x" /* */}',
    "two bodies": b'{"model":"x"}{"model":"y"}',
    "nothing": b"",
    "blanks": b" " * 1000,
    "a mark and no more": b"\xef\xbb\xbf",
    "text": b"hello",
    "no object": b'["model"]',
    "only null": b"null",
    "wrong types": b'{"model":{},"messages":7,"prompt":{"a":[]},"input":{"a":1},"stream":"yes","options":[]}',
    "types wrong inside": b'{"model":"x","messages":[[],7,null,{"role":[]}],"tools":{"a":1},"stop":{"a":1}}',
}


@pytest.mark.parametrize("path", ROUTES)
async def test_bodies(path: str) -> None:
    async with rig(max_body_bytes=10_000_000) as r:
        for name, body in BODIES.items():
            began = time.perf_counter()
            got = await r.client.post(path, content=body)
            assert 400 <= got.status_code < 500, (name, got.status_code, got.text[:200])
            assert got.json()["error"], name
            assert len(got.content) < 5000 or name == "a name as large as a book", name
            assert time.perf_counter() - began < 10, name
        assert (await r.lanes.depths())["fast"].waiting == 0


FIELDS = (
    "tools",
    "options",
    "format",
    "response_format",
    "metadata",
    "chat_template_kwargs",
    "logit_bias",
    "documents",
)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
async def test_depth_in_a_field_that_is_only_carried_through(path: str, field: str) -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post(path, content=nested(field)))
        async with asyncio.timeout(10):
            while not sent.done() and not (await r.hands.pull_once()).jobs:
                await asyncio.sleep(0.01)
        if not sent.done():
            # Dropped, as unknown: the chat goes on without it.
            (key,) = [key async for key in r.store.redis.scan_iter(match="*job:*")]
            assert b"[[[[" not in await r.store.redis.hget(key, "body")
            sent.cancel()
        else:
            assert (await sent).status_code == 400


TRICKS = (
    *("//", "/./api/tags", "/health/../api/tags", "/health/%2e%2e/api/tags", "/%2e/api/tags", "//api//tags//"),
    *("/api%2ftags", "/API/TAGS", "/api/tags;x", "/api/tags%00", "/api/tags%20", "/api\\tags", "/api/version/../tags"),
    *(
        "/health/api/tags",
        "/health%2fready/../../api/tags",
        "/api/version%2f..%2ftags",
        "/?/api/tags",
        "/v1/models/../x",
    ),
    *("/health/ready/../../v1/models", "/v1//models", "/.//v1/models", "/api/version?x=/api/tags", "/%2fapi%2ftags"),
)


async def raw(r: Rig, target: str) -> tuple[int, bytes]:
    """A GET with just this target: clients tidy paths up before they send them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", r.port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode("latin-1"))
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return int(answer.split()[1]), answer


@pytest.mark.parametrize("target", TRICKS)
async def test_no_path_gets_round_the_key(target: str) -> None:
    async with rig(api_keys=[ApiKey(name="a", key="k")]) as r:
        status, answer = await raw(r, target)
        assert PLAIN.encode() not in answer
        assert status in (400, 401, 404) or target.startswith(("//", "/?", "/api/version?")), (status, answer)


async def test_an_address_in_place_of_a_path_is_a_path() -> None:
    async with rig(api_keys=[ApiKey(name="a", key="k")]) as r:
        for target in ("http://evil.example/api/tags", "http://x/", "*", "evil.example:80"):
            status, answer = await raw(r, target)
            assert PLAIN.encode() not in answer
            assert status in (200, 400, 401), target


@pytest.mark.parametrize("size", [10_000, 100_000])
async def test_many_messages_and_tools_hold_nobody_up(size: int) -> None:
    """Work that a body asks for is done beside the loop, and in a time that grows as the body does."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": ""}] * size
    body = json.dumps({"model": "nobody", "messages": messages}).encode()
    async with rig() as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post("/v1/chat/completions", content=body))
        slowest_s = 0.0
        while not sent.done():
            began = time.perf_counter()
            assert (await r.client.get("/api/version")).status_code == 200
            slowest_s = max(slowest_s, time.perf_counter() - began)
        assert (await sent).status_code == 404
        assert slowest_s < 5
