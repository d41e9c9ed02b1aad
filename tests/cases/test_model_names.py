"""Names of models: each that a list shows works everywhere, in the spellings that Ollama's users know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.reply import Reply, is_native_error, is_openai_error
from tests.cases.rig import Bench, run_bench
from tests.cases.scripts import plain
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER = [{"role": "user", "content": "hi"}]
ROUTES: dict[str, dict[str, Any]] = {
    "/api/chat": {"messages": USER, "stream": False},
    "/api/generate": {"prompt": "hi", "stream": False},
    "/api/show": {},
    "/v1/chat/completions": {"messages": USER},
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi"},
}
SHOWS = "/api/show"
ON_OLL = {
    "m-oll": "m-oll:latest",
    "m-oll:latest": "m-oll:latest",
    "M-OLL": "m-oll:latest",
    "M-oll:Latest": "m-oll:latest",
    "other:7b": "other:7b",
    "Other:7B": "other:7b",
    "someone/fine:q4": "someone/fine:q4",
    "hf.co/Org/Some-GGUF:Q4_K_M": "hf.co/Org/Some-GGUF:Q4_K_M",
}
ON_OAI = {
    "org/m-oai": "org/m-oai",
    "org/m-oai:latest": "org/m-oai",
    "ORG/M-OAI": "org/m-oai",
    "Big/Model.v1_2": "Big/Model.v1_2",
    "Big/Model.v1_2:latest": "Big/Model.v1_2",
    "big/model.v1_2": "Big/Model.v1_2",
}
NOBODYS = (
    "other",
    "other:latest",
    "other:8b",
    "m-ol",
    "m-oll:7b",
    "elsewhere/m-oai",
    "m-oai:7b",
    "é",
    "*",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(
        Scripted("openai", kind="vllm", models=["org/m-oai", "Big/Model.v1_2"]),
        Scripted("ollama", models=["m-oll:latest", "other:7b", "someone/fine:q4", "hf.co/Org/Some-GGUF:Q4_K_M"]),
    ) as found:
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def healthy(bench: Bench, checked: None) -> None:
    bench.oai.script = bench.oll.script = plain


async def ask(bench: Bench, route: str, name: str) -> Reply:
    return await bench.ask(route, {"model": name, **ROUTES[route]})


async def listed(bench: Bench) -> set[str]:
    tags = (await bench.get("/api/tags")).json()["models"]
    cards = (await bench.get("/v1/models")).json()["data"]
    return {entry[key] for entry in tags for key in ("name", "model")} | {card["id"] for card in cards}


@pytest.mark.parametrize("route", ROUTES)
async def test_every_listed_name_works(bench: Bench, route: str) -> None:
    names = await listed(bench)
    assert len(names) >= 6
    for name in names:
        reply = await ask(bench, route, name)
        assert reply.status == 200, (name, reply.body)
        if route != SHOWS:
            assert reply.json()["model"] == name


@pytest.mark.parametrize("route", ROUTES)
async def test_other_spellings_reach_the_same_engine(bench: Bench, route: str) -> None:
    """The answer says the name as the client said it, the engine hears its own."""
    for engine, names in ((bench.oll, ON_OLL), (bench.oai, ON_OAI)):
        for name, upstream in names.items():
            engine.requests.clear()
            reply = await ask(bench, route, name)
            assert reply.status == 200, (name, reply.body)
            if route != SHOWS:
                assert reply.json()["model"] == name
                (request,) = engine.requests
                assert request.json()["model"] == upstream


async def test_every_line_of_a_stream_says_the_name_as_the_client_said_it(bench: Bench) -> None:
    for name in ("M-OLL", "org/m-oai:latest"):
        lines = (await bench.chat("ollama", name)).lines()
        chunks = (await bench.chat("openai", name, stream=True)).chunks()
        assert {told["model"] for told in [*lines, *chunks]} == {name}


@pytest.mark.parametrize("route", ROUTES)
async def test_a_name_that_nobody_has(bench: Bench, route: str) -> None:
    """Nor is another tag of a known name good enough."""
    for name in NOBODYS:
        reply = await ask(bench, route, name)
        assert reply.status == 404, (name, reply.status, reply.body)
        if route.startswith("/api/"):
            assert is_native_error(reply)
            assert name in reply.json()["error"]
        else:
            assert is_openai_error(reply)
            assert name in reply.json()["error"]["message"]
    assert not bench.oai.requests
    assert not bench.oll.requests


async def test_one_model_of_the_list_by_its_name(bench: Bench) -> None:
    for card in (await bench.get("/v1/models")).json()["data"]:
        reply = await bench.get(f"/v1/models/{card['id']}")
        assert (reply.status, reply.json()["id"]) == (200, card["id"])
    for name in ("other", "nobody/here", "m-oll:7b"):
        reply = await bench.get(f"/v1/models/{name}")
        assert reply.status == 404
        assert is_openai_error(reply)


@pytest.mark.parametrize("name", ["", None, 7, [], {}, True, ...])
async def test_no_name_at_all(bench: Bench, name: Any) -> None:
    for route, fields in ROUTES.items():
        body = fields if name is ... else {"model": name, **fields}
        reply = await bench.ask(route, body)
        assert reply.status == 400, (route, name, reply.status, reply.body)
        assert (is_native_error if route.startswith("/api/") else is_openai_error)(reply)
