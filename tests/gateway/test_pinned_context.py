"""A back end whose operator has set ``num_ctx``: with another one Ollama would load the model anew, so every request
that can have it loaded carries that one, whatever its client asks."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.gateway.management_rig import Keepers, keepers

MODEL = "qwen3:0.6b"
PINNED = 4096
WORDS = [{"role": "user", "content": "x"}]
OTHER = {"num_ctx": 8192, "num_gpu": 1}
ASKS: list[tuple[str, dict[str, Any]]] = [
    ("/api/chat", {"messages": WORDS}),
    ("/api/chat", {"messages": WORDS, "options": OTHER}),
    ("/api/generate", {"prompt": "x", "options": OTHER}),
    ("/api/generate", {"prompt": "x", "raw": True, "options": OTHER}),
    ("/api/chat", {"messages": [], "options": OTHER}),
    ("/api/generate", {"keep_alive": 60}),
    ("/v1/chat/completions", {"messages": WORDS, "num_ctx": 8192}),
    ("/v1/completions", {"prompt": "x"}),
    ("/v1/messages", {"messages": WORDS, "max_tokens": 9}),
    ("/v1/responses", {"input": "x"}),
    ("/api/embed", {"input": "x", "options": OTHER}),
    ("/api/embeddings", {"prompt": "x", "options": OTHER}),
    ("/v1/embeddings", {"input": ["x", "y"]}),
]
LOADING = {"/api/chat", "/api/generate", "/api/embed", "/api/embeddings"}


def sent(keeper: Keepers) -> list[tuple[str, dict[str, Any]]]:
    """What the engine was sent that can have it load a model."""
    engine = keeper.engines["one"]
    every = [*engine.requests, *engine.others, *engine.embeddings.requests, *engine.shelf.requests]
    return [(one.path, json.loads(one.body)) for one in every if one.path in LOADING]


async def test_every_request_that_can_have_a_model_loaded_carries_it() -> None:
    async with keepers("one", num_ctx=PINNED) as keeper, httpx.AsyncClient(base_url=keeper.url, timeout=20) as client:
        await keeper.seen("one", MODEL)
        for path, body in ASKS:
            answer = await client.post(path, json={"model": MODEL, "stream": False, **body})
            assert answer.status_code == 200, (path, answer.text)
        told = sent(keeper)
    assert {path for path, _ in told} == LOADING
    assert [path for path, body in told if body.get("options", {}).get("num_ctx") != PINNED] == []
    assert not [body for _, body in told if "num_gpu" in body.get("options", {})]
    assert len(told) >= len(ASKS)


@pytest.mark.parametrize("asked", [8192, None])
async def test_without_one_the_client_may_ask(asked: int | None) -> None:
    async with keepers("one") as keeper, httpx.AsyncClient(base_url=keeper.url, timeout=20) as client:
        await keeper.seen("one", MODEL)
        more = {"options": {"num_ctx": asked}} if asked else {}
        answer = await client.post("/api/chat", json={"model": MODEL, "stream": False, "messages": WORDS, **more})
        assert answer.status_code == 200
        (told,) = sent(keeper)
    assert told[1].get("options", {}).get("num_ctx") == asked
