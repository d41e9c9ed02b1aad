"""Back ends that are configured and not there, in every way of not being there: nobody waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.acceptance.site import Site, backend
from tests.cases.reply import refused
from tests.cases.rig import OAI, OLL, Bench, settings
from tests.rig.processes import run_command
from tests.rig.redis_server import free_port, run_redis
from tests.rig.scripted import Scripted

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

LISTS = ("/api/tags", "/v1/models", "/api/ps", "/api/version")
CONNECT_S = 3.0
WAYS = ("full", "closed", "silent", "page")


@contextlib.contextmanager
def full_backlog() -> Any:
    """The port of a socket on which no connection is ever completed."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        time.sleep(0.05)
        with socket.socket() as probe:
            probe.settimeout(0.3)
            with pytest.raises(TimeoutError):
                probe.connect(("127.0.0.1", port))
        yield port


@contextlib.asynccontextmanager
async def serving(answer: bytes) -> AsyncIterator[int]:
    """The port of a server that says just this to every request; nothing: it accepts and never answers."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(PAGE) + PAGE


@dataclass
class Times:
    """What a cold start and a chat took with the dead addresses, and the chat without them. Seconds."""

    cold: dict[str, tuple[int, float]]
    usual_s: float
    without_s: float


async def start(stack: contextlib.AsyncExitStack, backends: list[dict[str, Any]]) -> Site:
    """A gateway that listens, and nothing more is waited for."""
    server = stack.enter_context(run_redis())
    environment = settings() | {"REDIS_URL": server.url, "DOUBLEBUFFER_BACKENDS": json.dumps(backends)}
    gateway = await stack.enter_async_context(run_command("gateway", "--port", "0", environment=environment))
    workers = [await stack.enter_async_context(run_command("worker", environment=environment)) for _ in range(2)]
    await gateway.is_healthy()
    for worker in workers:
        await worker.has_said(".")
    return Site(gateway, workers, server, {})


async def chat_s(client: httpx.AsyncClient) -> float:
    """What a chat takes; the middle of nine, so that it is none of this machine's moods."""
    body = {"model": OLL, "messages": [{"role": "user", "content": "hi"}]}
    took = []
    for _ in range(9):
        began = time.perf_counter()
        answer = await client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        took.append(time.perf_counter() - began)
    return statistics.median(took)


@contextlib.asynccontextmanager
async def dead(kind: str) -> AsyncIterator[list[dict[str, Any]]]:
    async with contextlib.AsyncExitStack() as stack:
        ports = {
            "full": stack.enter_context(full_backlog()),
            "closed": free_port(),
            "silent": await stack.enter_async_context(serving(b"")),
            "page": await stack.enter_async_context(serving(BAD_GATEWAY)),
        }
        yield [
            backend(f"{kind}-{way}", kind, f"http://127.0.0.1:{port}", models={f"m-{kind}-{way}": "m"})
            for way, port in ports.items()
        ]


@dataclass
class Ruin(Bench):
    times: Times | None = None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Ruin]:
    """One engine that is there; beside it the four ways, as Ollama and as vLLM."""
    async with contextlib.AsyncExitStack() as stack:
        oll = await stack.enter_async_context(Scripted("ollama", models=[OLL]))
        living = backend("fb2", "ollama", oll.url)
        async with contextlib.AsyncExitStack() as healthy:
            site = await start(healthy, [living])
            client = await healthy.enter_async_context(httpx.AsyncClient(base_url=site.url, trust_env=False))
            assert (await client.get("/api/tags")).status_code == 200
            without_s = await chat_s(client)
        gone = [*await stack.enter_async_context(dead("ollama")), *await stack.enter_async_context(dead("vllm"))]
        site = await start(stack, [*gone[:2], living, *gone[2:]])
        client = httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=30)
        await stack.enter_async_context(client)
        cold = {}
        for path in LISTS:
            began = time.perf_counter()
            answer = await client.get(path)
            cold[path] = (answer.status_code, time.perf_counter() - began)
        times = Times(cold, await chat_s(client), without_s)
        yield Ruin(site, Scripted(models=[OAI]), oll, client, times=times)


async def test_the_first_lists_come_soon(bench: Ruin) -> None:
    assert bench.times is not None
    for path, (status, took_s) in bench.times.cold.items():
        assert status == 200, path
        assert took_s < 4, (path, took_s)


@pytest.mark.parametrize("path", LISTS)
async def test_later_ones_at_once(bench: Ruin, path: str) -> None:
    for _ in range(5):
        reply = await bench.get(path)
        assert reply.status == 200
        assert reply.took_s < 0.5, reply.took_s
        assert "error" not in reply.json()
        await asyncio.sleep(0.3)  # across the second after which lists are read anew


async def test_what_is_there_is_listed_once(bench: Ruin) -> None:
    tags = [entry["name"] for entry in (await bench.get("/api/tags")).json()["models"]]
    cards = [card["id"] for card in (await bench.get("/v1/models")).json()["data"]]
    assert tags.count(f"{OLL}:latest") == 1
    assert cards.count(OLL) == 1


async def test_a_chat_is_none_the_slower(bench: Ruin) -> None:
    assert bench.times is not None
    assert bench.times.usual_s < bench.times.without_s + 0.3, bench.times
    for api in ("ollama", "openai"):
        assert (await bench.chat(api, OLL, stream=True)).content


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ["ollama", "openai"])
@pytest.mark.parametrize("kind", ["ollama", "vllm"])
async def test_a_model_that_only_a_dead_one_has(bench: Ruin, kind: str, api: str, stream: bool) -> None:
    path = "/api/chat" if api == "ollama" else "/v1/chat/completions"
    for way in WAYS:
        reply = await bench.chat(api, f"m-{kind}-{way}", stream=stream)
        assert reply.status in (404, 502, 503, 504), (way, reply.status, reply.body)
        assert refused(reply, path, reply.status), reply.body
        assert reply.took_s < CONNECT_S + 1, (way, reply.took_s)
        assert b"<html>" not in reply.body


async def test_embeddings_and_descriptions_of_it_too(bench: Ruin) -> None:
    for path, field in (("/api/embed", "input"), ("/v1/embeddings", "input"), ("/api/generate", "prompt")):
        reply = await bench.ask(path, {"model": "m-ollama-full", field: "x"})
        assert reply.status in (404, 502, 503, 504)
        assert refused(reply, path, reply.status), reply.body
        assert reply.took_s < CONNECT_S + 1
    assert (await bench.ask("/api/show", {"model": OLL})).status == 200


async def test_the_service_counts_as_ready(bench: Ruin) -> None:
    assert (await bench.get("/health")).status == 200
    assert (await bench.get("/health/ready")).status == 200
