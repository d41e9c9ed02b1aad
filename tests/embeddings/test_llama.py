"""The real llama.cpp server, embedding with a small Qwen3: vectors without sense, and real in every other way."""

from __future__ import annotations

import asyncio
import json
import math
import urllib.request
from collections.abc import Iterator

import pytest

from backends.base import BackendError
from backends.make import make
from buffer.backend import BackendSpec
from buffer.embed import Embed, numbers
from tests.embeddings.rig import house_at
from tests.rig.embeddings import close
from tests.rig.llama import LlamaServer, run_llama


@pytest.fixture(scope="module")
def embedder() -> Iterator[LlamaServer]:
    with run_llama(slots=4, context=512, embeddings=True) as server:
        yield server


def _directly(server: LlamaServer, text: str, **more: object) -> list[float]:
    """What the server itself says."""
    body = json.dumps({"input": text, "model": server.model, **more}).encode()
    request = urllib.request.Request(f"{server.url}/v1/embeddings", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: list[float] = json.load(answer)["data"][0]["embedding"]
    return found


def _near(one: list[float], other: list[float]) -> bool:
    """Whether two vectors point the same way: in a batch the arithmetic is not that of one alone to the last bit."""
    return math.isclose(sum(a * b for a, b in zip(one, other, strict=True)), 1, abs_tol=1e-3)


async def test_a_burst_through_every_way_to_ask(embedder: LlamaServer) -> None:
    texts = [f"the lamp {i} in the harbor" for i in range(40)]
    wanted = [await asyncio.to_thread(_directly, embedder, text) for text in texts]
    async with house_at("llamacpp", embedder.url) as h:
        answers = await asyncio.gather(
            *(h.client.post("/api/embed", json={"model": embedder.model, "input": text}) for text in texts[:20]),
            *(h.client.post("/v1/embeddings", json={"model": embedder.model, "input": [text]}) for text in texts[20:]),
        )
        told = [answer.json() for answer in answers]
        vectors = [one["embeddings"][0] for one in told[:20]] + [one["data"][0]["embedding"] for one in told[20:]]
        assert all(_near(vector, own) for vector, own in zip(vectors, wanted, strict=True))
        # And not just anything: no two of them are as near as each is to its own.
        assert not _near(vectors[0], wanted[1])
        older = await h.client.post("/api/embeddings", json={"model": embedder.model, "prompt": texts[0]})
        raw = await asyncio.to_thread(_directly, embedder, texts[0], embd_normalize=-1)
        assert math.hypot(*raw) > 2
        assert close(older.json()["embedding"], raw) or math.isclose(
            math.hypot(*older.json()["embedding"]), math.hypot(*raw), rel_tol=1e-2
        )
        cut = await h.client.post("/api/embed", json={"model": embedder.model, "input": texts[0], "dimensions": 8})
        (vector,) = cut.json()["embeddings"]
        assert len(vector) == 8
        assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-5)


async def test_long_inputs_and_tokens(embedder: LlamaServer) -> None:
    back_end = make(
        BackendSpec(name="b", kind="llamacpp", url=embedder.url),
        connect_timeout_s=2,
        first_token_timeout_s=30,
        stall_timeout_s=30,
    )
    long = "the quiet harbor " * 600
    try:
        for truncate in (False, None):
            with pytest.raises(BackendError) as refused:
                await back_end.embed(Embed("m", [long], truncate=truncate), upstream_model=embedder.model)
            error = refused.value
            assert (error.kind, error.status, error.code, error.param) == (
                "client",
                400,
                "context_length_exceeded",
                "input",
            )
        found = await back_end.embed(Embed("m", [long], truncate=True), upstream_model=embedder.model)
        assert math.isclose(math.hypot(*numbers(found.vectors[0])), 1, abs_tol=1e-5)
        assert 300 < found.usage.prompt <= 512
        found = await back_end.embed(Embed("m", [[1, 2, 3], [4, 5]]), upstream_model=embedder.model)
        assert (len(found.vectors), found.usage.prompt) == (2, 5)
        with pytest.raises(BackendError) as refused:
            await back_end.embed(Embed("m", ["x", ""]), upstream_model=embedder.model)
        assert (refused.value.kind, refused.value.status) == ("client", 400)
    finally:
        await back_end.aclose()


async def test_a_server_that_does_not_embed_says_so_once(llama_server: LlamaServer) -> None:
    async with house_at("llamacpp", llama_server.url) as h:
        asks = [h.client.post("/api/embed", json={"model": llama_server.model, "input": f"{i}"}) for i in range(8)]
        for answer in await asyncio.gather(*asks):
            assert answer.status_code == 400
            assert "does not support embeddings" in answer.json()["error"]
        # Nothing is wrong with it as far as chats go.
        body = {"model": llama_server.model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        assert (await h.client.post("/v1/chat/completions", json=body)).status_code == 200
