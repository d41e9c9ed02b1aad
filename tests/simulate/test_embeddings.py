"""The simulated engine's embeddings: the same text, the same vector."""

from __future__ import annotations

import base64
import math
from array import array

import httpx
import pytest

from simulate.embeddings import NUMBERS, vector_of
from simulate.site import DEFAULT_MODEL
from tests.simulate.serving import served


def test_vectors() -> None:
    assert vector_of("a") == vector_of("a") != vector_of("b")
    assert len(vector_of("a")) == NUMBERS
    assert math.isclose(math.hypot(*vector_of("a")), 1)
    assert math.isclose(math.hypot(*vector_of("a", 5)), 1)
    assert len(vector_of("a", 5)) == 5


async def test_openai_s_form() -> None:
    async with served() as url, httpx.AsyncClient(base_url=url) as client:

        async def ask(asked: object, **more: object) -> httpx.Response:
            return await client.post("/v1/embeddings", json={"model": DEFAULT_MODEL, "input": asked, **more})

        whole = (await ask(["a", "bcdef"])).json()
        assert [item["embedding"] for item in whole["data"]] == [vector_of("a"), vector_of("bcdef")]
        assert whole["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
        packed = (await ask("a", encoding_format="base64")).json()["data"][0]["embedding"]
        assert array("f", base64.b64decode(packed)).tolist() == pytest.approx(vector_of("a"), abs=1e-6)
        assert len((await ask([[1, 2], [3]], dimensions=3)).json()["data"][1]["embedding"]) == 3
        assert (await ask([1, 2])).json()["usage"]["prompt_tokens"] == 2
        for asked in ([], [1, "a"], "x" * 200_000, None):
            assert (await ask(asked)).status_code == 400
        unknown = await client.post("/v1/embeddings", json={"model": "no", "input": "a"})
        assert unknown.status_code == 404


async def test_ollama_s_forms() -> None:
    async with served("rtx4090-ollama") as url, httpx.AsyncClient(base_url=url) as client:

        async def ask(asked: object, **more: object) -> httpx.Response:
            return await client.post("/api/embed", json={"model": DEFAULT_MODEL, "input": asked, **more})

        whole = (await ask(["a", "b"])).json()
        assert whole["embeddings"] == [vector_of("a"), vector_of("b")]
        assert whole["prompt_eval_count"] == 2
        assert (await ask("")).json()["embeddings"] == (await ask([])).json()["embeddings"] == []
        assert (await ask("x" * 200_000)).status_code == 200
        refused = await ask("x" * 200_000, truncate=False)
        assert (refused.status_code, refused.json()["error"]) == (400, "the input length exceeds the context length")
        older = await client.post("/api/embeddings", json={"model": DEFAULT_MODEL, "prompt": "a"})
        assert older.json() == {"embedding": vector_of("a")}
        empty = await client.post("/api/embeddings", json={"model": DEFAULT_MODEL})
        assert empty.json() == {"embedding": []}
        for path in ("/api/embed", "/api/embeddings"):
            unknown = await client.post(path, json={"model": "no", "input": "a", "prompt": "a"})
            assert (unknown.status_code, unknown.json()["error"]) == (404, 'model "no" not found, try pulling it first')
            assert (await client.post(path, json={"input": "a"})).status_code == 400
