"""Behind nginx and Caddy, as the examples set them up: words come one by one, and a client that leaves is heard of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.cases.rig import OAI, OLL, Bench, forget, run_bench, settings
from tests.deploy.proxies import caddy, nginx, run_proxy
from tests.rig.script import HOLD, Flavour, Wait, answer, role

pytestmark = [pytest.mark.debian, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(60)]

SOON_S = 20.0
"""What is held back comes never, or not before the engine's time is over."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(more=settings(max_in_flight="1"), workers=1) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
async def proxy(
    bench: Bench, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[httpx.AsyncClient]:
    async with run_proxy(request.param, tmp_path_factory.mktemp("proxy"), bench.url) as client:
        yield client


@pytest.fixture(autouse=True)
def _anew(bench: Bench) -> None:
    forget(bench)


def chat(model: str) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}


@pytest.mark.parametrize(("path", "model"), [("/v1/chat/completions", OAI), ("/api/chat", OLL)])
async def test_each_word_comes_as_it_is_said(bench: Bench, proxy: httpx.AsyncClient, path: str, model: str) -> None:
    heard = asyncio.Event()
    flavour: Flavour = "openai" if model == OAI else "ollama"
    bench.engine(model).once.append(
        [*([role()] if model == OAI else []), "first", Wait(heard), *answer(flavour, "last")]
    )
    async with asyncio.timeout(SOON_S), proxy.stream("POST", path, json=chat(model)) as response:
        assert response.status_code == 200
        text = ""
        async for piece in response.aiter_text():
            text += piece
            if "first" in text:
                heard.set()
    assert "last" in text


async def test_a_client_that_leaves_stops_the_engine(bench: Bench, proxy: httpx.AsyncClient) -> None:
    bench.oai.once.append([role(), "first", HOLD])
    async with proxy.stream("POST", "/v1/chat/completions", json=chat(OAI)) as response:
        async for piece in response.aiter_text():
            if "first" in piece:
                break
    async with asyncio.timeout(SOON_S):
        await bench.oai.requests[0].closed.wait()


async def test_a_client_that_leaves_while_it_waits_is_taken_out(bench: Bench, proxy: httpx.AsyncClient) -> None:
    over = asyncio.Event()
    bench.oai.once.append([role(), Wait(over), *answer("openai", "last")])
    async with asyncio.TaskGroup() as group:
        first = group.create_task(proxy.post("/v1/chat/completions", json=chat(OAI)))
        await bench.oai.received()
        second = group.create_task(proxy.post("/v1/chat/completions", json=chat(OAI)))
        await waiting(bench, 1)
        second.cancel()
        await waiting(bench, 0)
        over.set()
        assert (await first).status_code == 200
    assert len(bench.oai.requests) == 1


async def waiting(bench: Bench, wanted: float) -> None:
    async with asyncio.timeout(SOON_S):
        while await bench.counted("doublebuffer_queue_depth") != wanted:
            await asyncio.sleep(0.02)


async def test_a_large_request_gets_through_and_metrics_do_not(bench: Bench, proxy: httpx.AsyncClient) -> None:
    body = chat(OAI) | {"stream": False}
    body["messages"][0]["content"] = "x" * 4_000_000
    bench.oai.once.append(list(answer("openai", "taken")))
    assert "taken" in (await proxy.post("/v1/chat/completions", json=body)).text
    assert (await proxy.get("/metrics")).status_code == 404
