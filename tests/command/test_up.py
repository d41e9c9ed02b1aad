"""``doublebuffer up``: what a person has after one command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from buffer.settings import Settings
from doublebuffer.discovery import Place, discover
from doublebuffer.up import live
from tests.rig.llama import LlamaServer
from tests.rig.processes import Process, run_command
from tests.rig.scripted import Scripted

HELLO = [{"role": "user", "content": "Hello"}]
AS_CURL_SENDS_IT = {"content-type": "application/x-www-form-urlencoded"}


async def ask_openai(url: str, model: str, **more: object) -> httpx.Response:
    """As ``curl -d`` would: no JSON content type."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = json.dumps({"model": model, "messages": HELLO, **more})
        return await client.post(f"{url}/v1/chat/completions", content=body, headers=AS_CURL_SENDS_IT)


async def ask_ollama(url: str, model: str) -> list[dict[str, object]]:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = json.dumps({"model": model, "messages": HELLO})
        answer = await client.post(f"{url}/api/chat", content=body, headers=AS_CURL_SENDS_IT)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]


async def models(url: str) -> list[str]:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        answer = await client.get(f"{url}/v1/models")
        assert answer.status_code == 200, answer.text
        return [model["id"] for model in answer.json()["data"]]


def llama_backends(server: LlamaServer) -> str:
    return json.dumps([{"name": "llama", "kind": "llamacpp", "url": server.url}])


@contextlib.asynccontextmanager
async def up_on_llama(server: LlamaServer, *flags: str) -> AsyncIterator[Process]:
    async with run_command("up", "--port", "0", "--backends", llama_backends(server), *flags) as process:
        await process.is_healthy("/health/ready")
        yield process


async def test_up_answers_both_curls_from_a_real_engine(llama_server: LlamaServer) -> None:
    async with up_on_llama(llama_server) as process:
        first = process.out.splitlines()[0]
        assert first.startswith("Doublebuffer ")
        assert first.endswith(" runs on llama.")
        assert await models(process.url) == ["tiny-qwen3"]

        answer = await ask_openai(process.url, "tiny-qwen3", temperature=0, max_tokens=200)
        assert answer.status_code == 200, answer.text
        message = answer.json()["choices"][0]["message"]
        assert message["content"].strip().endswith(".")
        assert "think" not in message["content"]
        assert answer.headers["x-doublebuffer-lane"] == "fast"

        lines = await ask_ollama(process.url, "tiny-qwen3")
        assert len(lines) > 2
        assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
        assert lines[-1]["done_reason"] in {"stop", "length"}
        assert "ERROR" not in process.log, process.log


async def test_up_over_a_real_redis(llama_server: LlamaServer, redis_url: str) -> None:
    async with up_on_llama(llama_server, "--redis-url", redis_url, "--key-prefix", "up-test") as process:
        assert f"  store      {redis_url}" in process.out
        answer = await ask_openai(process.url, "tiny-qwen3", max_tokens=5)
        assert answer.status_code == 200, answer.text


async def test_up_without_any_back_end_says_what_it_runs_on() -> None:
    """On a machine with a real engine on its usual port that one answers; else the simulated one, which says so."""
    found = await discover()
    async with run_command("up", "--port", "0") as process:
        await process.is_healthy("/health/ready")
        first = process.out.splitlines()[0]
        if found:
            assert found[0].name in first
            return
        assert "SIMULATED" in first
        (model,) = await models(process.url)
        assert model.startswith("simulated-")
        answer = await ask_openai(process.url, model)
        assert answer.status_code == 200, answer.text
        assert answer.json()["system_fingerprint"].startswith("fp_simulated")
        lines = await ask_ollama(process.url, model)
        assert lines[-1]["done"] is True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_up_ends_a_running_answer_before_it_stops(number: signal.Signals) -> None:
    async with Scripted("openai", kind="llamacpp", models=["slow"]) as engine:
        engine.engine.delay_s = 0.05
        backends = json.dumps([{"name": "slow", "kind": "llamacpp", "url": engine.url}])
        async with run_command("up", "--port", "0", "--backends", backends) as process:
            await process.is_healthy("/health/ready")
            asking = asyncio.create_task(ask_openai(process.url, "slow"))
            await engine.received()
            process.send(number)
            answer = await asking
            assert answer.status_code == 200, answer.text
            assert answer.json()["choices"][0]["message"]["content"] == "ok 1 2 3 4 5"
            assert await process.ended(within_s=10) == 0
            assert "Traceback" not in process.log, process.log


async def test_the_first_lines_tell_of_a_back_end_that_is_away() -> None:
    backends = json.dumps([{"name": "away", "kind": "vllm", "url": "http://127.0.0.1:1", "api_key": "topsecret"}])
    async with run_command("up", "--port", "0", "--backends", backends, "--api-keys", "ann:topsecret") as process:
        await process.has_said(r"^  back end   away \(vllm\) at http://127\.0\.0\.1:1, not answering yet")
        await process.is_healthy()
        assert "topsecret" not in process.out + process.log
        assert "SIMULATED" not in process.out


@contextlib.asynccontextmanager
async def living(
    capsys: pytest.CaptureFixture[str], places: list[Place], settings: Settings
) -> AsyncIterator[tuple[str, list[str]]]:
    """``up`` inside this process: its address, and its lines so far."""
    stop = asyncio.Event()
    lines: list[str] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(live(settings, stop, places))
        try:
            async with asyncio.timeout(20):
                while not any(line.startswith("  address") for line in lines):
                    await asyncio.sleep(0.02)
                    lines += capsys.readouterr().out.splitlines()
            address = next(line for line in lines if line.startswith("  address"))
            yield address.split()[1], lines
        finally:
            stop.set()


async def test_an_engine_on_its_usual_port_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    async with Scripted("ollama", models=["qwen3:14b"]) as ollama:
        place = Place("ollama", "Ollama", ollama.url, "/api/version")
        async with living(capsys, [place], Settings(port=0)) as (url, lines):
            assert "runs on ollama" in lines[0]
            assert await models(url) == ["qwen3:14b"]


async def test_the_simulated_engine_goes_when_a_real_one_comes(capsys: pytest.CaptureFixture[str]) -> None:
    async with Scripted("ollama", models=["qwen3:14b"]) as elsewhere:
        port = elsewhere.port
    place = Place("ollama", "Ollama", f"http://127.0.0.1:{port}", "/api/version")
    async with living(capsys, [place], Settings(port=0)) as (url, lines):
        assert "SIMULATED" in lines[0]
        (simulated,) = await models(url)
        assert simulated.startswith("simulated-")
        async with Scripted("ollama", models=["qwen3:14b"], port=port):
            appeared_at = time.monotonic()
            while await models_or_none(url) != ["qwen3:14b"]:
                assert time.monotonic() - appeared_at < 5
                await asyncio.sleep(0.05)
            refused = await ask_openai(url, simulated)
            assert refused.status_code == 404
            assert (await ask_openai(url, "qwen3:14b")).status_code == 200


async def models_or_none(url: str) -> list[str] | None:
    """For a moment no engine may be known at all."""
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        answer = await client.get(f"{url}/v1/models")
    return [model["id"] for model in answer.json()["data"]] if answer.status_code == 200 else None


async def test_doublebuffer_on_an_engines_port_is_left_alone() -> None:
    async with Scripted("ollama", headers={"X-Doublebuffer": "1"}) as ourselves:
        assert await discover([Place("ollama", "Ollama", ourselves.url, "/api/version")]) == []


@pytest.mark.parametrize(
    ("kind", "flavour", "path"),
    [("ollama", "ollama", "/api/version"), ("vllm", "openai", "/v1/models"), ("llamacpp", "openai", "/v1/models")],
)
async def test_only_what_says_what_it_is_counts(kind: str, flavour: str, path: str) -> None:
    async with Scripted(flavour, kind=kind) as engine:  # type: ignore[arg-type]
        found = await discover([Place(kind, kind, engine.url, path)])  # type: ignore[arg-type]
        assert [(spec.name, spec.kind, spec.url) for spec in found] == [(kind, kind, engine.url)]
        other = "vllm" if kind == "llamacpp" else "llamacpp"
        assert await discover([Place(other, other, engine.url, "/v1/models")]) == []  # type: ignore[arg-type]


async def test_the_real_llama_server_is_recognised(llama_server: LlamaServer) -> None:
    found = await discover([Place("llamacpp", "llama.cpp", llama_server.url, "/v1/models")])
    assert [spec.kind for spec in found] == ["llamacpp"]
