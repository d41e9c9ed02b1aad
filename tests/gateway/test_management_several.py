"""Which of several Ollama back ends a model goes to, and from which it goes."""

from __future__ import annotations

import httpx

from tests.gateway.management_rig import keepers
from tests.gateway.rig import lines

HERE = "qwen3:0.6b"


async def listed(client: httpx.AsyncClient) -> set[str]:
    return {model["name"] for model in (await client.get("/api/tags")).json()["models"]}


async def test_a_model_goes_where_it_is_and_else_to_the_first_that_is_up() -> None:
    async with keepers("one", "two") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        k.shelf("two")._add("only-two:1b")
        await k.seen("two", "only-two:1b")

        async def pull(model: str, **headers: str) -> str:
            got = await client.post("/api/pull", json={"model": model}, headers=headers)
            assert lines(got.text)[-1] == {"status": "success"}, got.text
            return got.headers["x-doublebuffer-backend"]

        assert await pull("new:1b") == "one"
        assert await pull("only-two:1b") == "two"
        assert await pull("new:2b", **{"X-Doublebuffer-Backend": "two"}) == "two"
        got = await client.post("/api/pull", json={"model": "x"}, headers={"X-Doublebuffer-Backend": "three"})
        assert (got.status_code, list(got.json())) == (400, ["error"])
        got = await client.post("/api/copy", json={"source": "only-two:1b", "destination": "copied"})
        assert got.status_code == 200
        assert "copied:latest" in k.shelf("two").models


async def test_a_model_is_deleted_wherever_it_is() -> None:
    async with keepers("one", "two") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        assert HERE in await listed(client)
        assert (await client.request("DELETE", "/api/delete", json={"name": HERE})).status_code == 200
        assert not k.shelf("one").models
        assert not k.shelf("two").models
        assert await listed(client) == set()


async def test_one_that_is_down_is_passed_over() -> None:
    async with keepers("one", "two") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        await k.engines["one"].__aexit__()
        await k.seen("one", None)
        got = await client.post("/api/pull", json={"model": "new:1b", "stream": False})
        assert (got.status_code, got.headers["x-doublebuffer-backend"]) == (200, "two")
        await k.engines["two"].__aexit__()
        await k.seen("two", None)
        got = await client.post("/api/pull", json={"model": "new:2b"})
        assert (got.status_code, list(got.json())) == (503, ["error"])
