"""Gateway, store, worker and scripted back ends in one process, with the official clients in front."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import ollama
import openai
import pytest

from buffer.backend import BackendSpec, Kind
from buffer.lanes import Lanes
from buffer.settings import Settings
from buffer.store import Store, open_store
from buffer.telemetry import Telemetry
from gateway.app import create_app
from tests.gateway.rig import Wire, chunks, lines, served, until
from tests.rig.engine import expected
from tests.rig.script import CUT, DONE, HOLD, Sleep, Status, finish, role, usage
from tests.rig.scripted import Scripted
from worker.runner import Worker

MODELS: dict[Kind, str] = {
    "ollama": "qwen3:0.6b",
    "vllm": "Qwen/Qwen3-8B",
    "llamacpp": "qwen3-1.7b",
    "openai": "qwen3-4b",
}


class House:
    """The whole of it, with one back end of each kind."""

    def __init__(self, url: str, port: int, store: Store, engines: dict[Kind, Scripted], telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self.url = url
        self.port = port
        self.lanes = Lanes(store)
        self.engines = engines

    async def quiet(self) -> None:
        """Waits until no job and no lease is left."""

        async def nothing() -> bool:
            open_jobs = [
                await self.lanes.store.redis.xlen(self.lanes.keys.jobs(lane)) for lane in await self.lanes.depths()
            ]
            return not any(open_jobs) and not await self.lanes.store.redis.zcard(self.lanes.keys.lease)

        await until(nothing)


@asynccontextmanager
async def house(*kinds: Kind, aliases: dict[str, str] | None = None, **settings: Any) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        flavour = {kind: "ollama" if kind == "ollama" else "openai" for kind in kinds}
        engines: dict[Kind, Scripted] = {
            kind: await stack.enter_async_context(Scripted(flavour[kind], kind=kind, models=[MODELS[kind]]))  # type: ignore[arg-type]
            for kind in kinds
        }
        specs = [
            BackendSpec(name=kind, kind=kind, url=engine.url, models=aliases or {}) for kind, engine in engines.items()
        ]
        store = await open_store(None, prefix=f"t-{secrets.token_hex(6)}")
        stack.push_async_callback(store.aclose)
        telemetry = Telemetry()
        made = Settings(backends=specs, **settings)
        stop = asyncio.Event()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(Worker(made, store, telemetry=telemetry).run(stop))
        stack.callback(stop.set)
        port = await stack.enter_async_context(served(create_app(made, store, telemetry=telemetry)))
        yield House(f"http://127.0.0.1:{port}", port, store, engines, telemetry)


@pytest.fixture(autouse=True)
def no_unexpected_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("kind", MODELS)
async def test_each_kind_of_back_end_behind_both_apis_and_their_own_clients(kind: Kind) -> None:
    prompt = "marker:abc words:4 thoughts:2"
    messages: Any = [{"role": "user", "content": prompt}]
    async with house(kind) as h:
        theirs = ollama.AsyncClient(h.url)
        for think in (True, False):
            whole = await theirs.chat(MODELS[kind], messages, think=think)
            assert whole.message.content == expected(prompt)
            assert bool(whole.message.thinking) is think
            parts = [part async for part in await theirs.chat(MODELS[kind], messages, think=think, stream=True)]
            assert "".join(part.message.content or "" for part in parts) == expected(prompt)
            assert parts[-1].done
        async with openai.AsyncOpenAI(base_url=f"{h.url}/v1", api_key="none", max_retries=0) as ours:
            answer = await ours.chat.completions.create(model=MODELS[kind], messages=messages)
            assert answer.choices[0].message.content == expected(prompt)
            stream = await ours.chat.completions.create(model=MODELS[kind], messages=messages, stream=True)
            text = [part.choices[0].delta.content or "" async for part in stream if part.choices]
            assert "".join(text) == expected(prompt)
            assert [model.id async for model in ours.models.list()] == [MODELS[kind]]
            assert (await ours.models.retrieve(MODELS[kind])).id == MODELS[kind]
        assert [model.model for model in (await theirs.list()).models] == [
            MODELS[kind] if kind == "ollama" else f"{MODELS[kind]}:latest"
        ]
        assert (await theirs.show(MODELS[kind])).modelinfo
        await theirs.ps()
        await h.quiet()


async def test_many_at_once_each_get_their_own() -> None:
    async with house("ollama", "vllm") as h, httpx.AsyncClient(base_url=h.url, timeout=30) as client:

        async def one(i: int) -> None:
            path = "/api/chat" if i % 2 else "/v1/chat/completions"
            prompt = f"marker:m{i} words:{i % 7 + 1}"
            body = {"model": MODELS["ollama" if i % 3 else "vllm"], "messages": [{"role": "user", "content": prompt}]}
            got = await client.post(path, json=body | {"stream": bool(i % 4 < 2)})
            assert got.status_code == 200, got.text
            if i % 4 >= 2:
                message = got.json()["message"] if i % 2 else got.json()["choices"][0]["message"]
                assert message["content"] == expected(prompt)
            elif i % 2:
                assert "".join(line["message"]["content"] for line in lines(got.text)) == expected(prompt)
            else:
                deltas = (c["choices"][0]["delta"] for c in chunks(got.text) if c["choices"])
                assert "".join(delta.get("content") or "" for delta in deltas) == expected(prompt)

        async with asyncio.TaskGroup() as group:
            for i in range(48):
                group.create_task(one(i))
        await h.quiet()


async def test_an_ollama_is_told_to_load_and_to_free_a_model() -> None:
    async with house("ollama", "vllm") as h, httpx.AsyncClient(base_url=h.url) as client:
        for path, more in (("/api/chat", {"messages": []}), ("/api/generate", {})):
            for keep_alive, reason in ((None, "load"), ("10m", "load"), (0, "unload")):
                body = {"model": MODELS["ollama"], **more} | ({} if keep_alive is None else {"keep_alive": keep_alive})
                got = (await client.post(path, json=body)).json()
                assert (got["done"], got["done_reason"]) == (True, reason)
                asked = h.engines["ollama"].requests[-1]
                assert asked.path == "/api/generate"
                told = asked.json()
                assert told.pop("stream") is False
                assert told == {k: v for k, v in body.items() if k != "messages"}
            assert (await client.post(path, json={"model": MODELS["vllm"], **more})).json()["done_reason"] == "load"
        assert h.engines["vllm"].requests == []


async def test_the_figures_of_an_answer_in_one_piece_tell_when_the_engine_said_it() -> None:
    async with house("vllm") as h, httpx.AsyncClient(base_url=h.url) as client:
        h.engines["vllm"].script = [
            role(),
            "one",
            Sleep(0.3),
            " two",
            Sleep(0.3),
            " three",
            finish(),
            usage(5, 3),
            DONE,
        ]
        body = {"model": MODELS["vllm"], "messages": [{"role": "user", "content": "x"}], "stream": False}
        got = (await client.post("/api/chat", json=body)).json()
        assert got["message"]["content"] == "one two three"
        assert got["eval_duration"] >= 550_000_000
        assert got["prompt_eval_duration"] + got["eval_duration"] <= got["total_duration"]


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("script", [[HOLD], ["Hel", HOLD]])
async def test_the_engine_is_left_when_the_client_leaves(path: str, stream: bool, script: list[Any]) -> None:
    async with house("vllm") as h:
        h.engines["vllm"].script = script
        body = {"model": MODELS["vllm"], "messages": [{"role": "user", "content": "x"}], "stream": stream}
        wire = await Wire.post(h.port, path, body)
        asked = await h.engines["vllm"].received()

        async def left() -> bool:
            return asked.peer_closed_at is not None

        if stream and len(script) > 1:
            await wire.until(b"Hel")
        await wire.leave()
        async with asyncio.timeout(1):
            await until(left)
        await h.quiet()


async def test_an_engine_that_refuses_and_one_that_breaks_off() -> None:
    async with house("vllm", max_attempts=1) as h, httpx.AsyncClient(base_url=h.url, timeout=20) as client:
        body = {"model": MODELS["vllm"], "messages": [{"role": "user", "content": "x"}], "stream": True}
        h.engines["vllm"].script = [Status(400, {"error": {"message": "too long", "code": 400}})]
        got = await client.post("/v1/chat/completions", json=body)
        assert got.status_code == 400
        assert got.json()["error"]["message"]
        h.engines["vllm"].script = ["Hel", CUT]
        got = await client.post("/v1/chat/completions", json=body)
        assert got.status_code == 200
        assert chunks(got.text)[-1]["error"]["message"]
        wire = await Wire.post(h.port, "/api/chat", body)
        rest = await wire.rest()
        assert json.loads(rest.splitlines()[-2])["error"]
        assert not rest.endswith(b"0\r\n\r\n")
        await h.quiet()


async def test_an_alias_that_the_operator_gave() -> None:
    async with house("vllm", aliases={"gpt-4o": MODELS["vllm"]}) as h, httpx.AsyncClient(base_url=h.url) as client:
        body = {"model": "GPT-4o", "messages": [{"role": "user", "content": "words:2"}]}
        got = (await client.post("/v1/chat/completions", json=body)).json()
        assert got["model"] == "GPT-4o"
        assert got["choices"][0]["message"]["content"] == expected("words:2")
        assert h.engines["vllm"].requests[-1].json()["model"] == MODELS["vllm"]
        # Gateway and worker count into one telemetry here, and each wait once.
        assert b'doublebuffer_queue_wait_seconds_count{lane="fast"} 1.0' in h.telemetry.exposition(None)
        listed = (await client.get("/v1/models")).json()["data"]
        assert {entry["id"] for entry in listed} == {"gpt-4o", MODELS["vllm"]}
        await h.quiet()


async def test_lists_while_a_back_end_is_dead() -> None:
    async with house("ollama") as h, httpx.AsyncClient(base_url=h.url, timeout=5) as client:
        assert len((await client.get("/api/tags")).json()["models"]) == 1
        await h.engines["ollama"].__aexit__()
        async with asyncio.timeout(5):
            for path in ("/api/tags", "/api/ps", "/v1/models"):
                assert (await client.get(path)).status_code == 200
