"""Where a model is brought, made, copied over or removed, nothing of what its name said before is given any more."""

from __future__ import annotations

from typing import Any

import httpx

from tests.gateway.management_rig import keepers

MODEL, OTHER = "qwen3:0.6b", "llama3.2:1b"


async def asked(client: httpx.AsyncClient, model: str = MODEL) -> str:
    """What the cache had for a question."""
    turns = [{"role": "user", "content": "hello"}]
    body = {"model": model, "messages": turns, "think": False, "options": {"temperature": 0}}
    reply = await client.post("/api/chat", json=body)
    assert reply.status_code == 200, reply.text
    return reply.headers["x-doublebuffer-cache"]


async def test_each_way_by_which_a_model_becomes_another() -> None:
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/api/pull", {"model": MODEL}),
        ("POST", "/api/create", {"model": MODEL, "from": OTHER, "system": "be brief"}),
        ("POST", "/api/copy", {"source": OTHER, "destination": MODEL}),
        ("POST", "/api/pull", {"model": MODEL.upper(), "stream": True}),
    ]
    async with keepers("one", cache=True) as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        await client.post("/api/pull", json={"model": OTHER, "stream": False})
        assert [await asked(client), await asked(client)] == ["miss", "hit"]
        assert [await asked(client, OTHER), await asked(client, OTHER)] == ["miss", "hit"]
        for method, path, body in changes:
            reply = await client.request(method, path, json={"stream": False, **body})
            assert reply.status_code == 200, reply.text
            assert [await asked(client), await asked(client)] == ["miss", "hit"], path
            assert await asked(client, OTHER) == "hit", path
        await client.request("DELETE", "/api/delete", json={"model": MODEL})
        await client.post("/api/pull", json={"model": MODEL, "stream": False})
        assert await asked(client) == "miss"
        await client.post("/api/push", json={"model": MODEL, "stream": False})
        assert await asked(client) == "hit", "it goes to others, and stays the same"
