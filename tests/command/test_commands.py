"""The commands as an operator meets them: help, refusals with exit code 2, the doctor."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from tests.rig.llama import LlamaServer
from tests.rig.processes import NO_TLS, RUN_S, clean_environment, run_command, run_to_end
from tests.rig.redis_server import run_redis

COMMANDS = ("up", "gateway", "worker", "simulate", "doctor")
NOWHERE = "redis://ann:topsecret@127.0.0.1:1/0"


def llama_backends(server: LlamaServer, **more: object) -> str:
    return json.dumps([{"name": "llama", "kind": "llamacpp", "url": server.url, **more}])


async def refused(command: list[str], directory: Path, environment: dict[str, str] | None = None) -> str:
    """The sentence of a command that ends with exit code 2."""
    code, out, log = await run_to_end(command, environment=environment, directory=directory)
    assert code == 2, (code, out, log)
    assert out == ""
    assert log.startswith("doublebuffer: ")
    assert log.endswith(".\n")
    assert log.count("\n") == 1
    assert "topsecret" not in log
    return log


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_command_has_help(command: str, tmp_path: Path) -> None:
    code, out, _ = await run_to_end([command, "--help"], directory=tmp_path)
    assert code == 0
    assert out.startswith(f"usage: doublebuffer {command}")
    if command != "simulate":
        assert "DOUBLEBUFFER_WINDOW_MS" in out


async def test_the_command_itself_has_help_and_a_version(tmp_path: Path) -> None:
    code, out, _ = await run_to_end(["--help"], directory=tmp_path)
    assert code == 0
    assert all(command in out for command in COMMANDS)
    code, out, _ = await run_to_end(["--version"], directory=tmp_path)
    assert (code, out.split()[0]) == (0, "doublebuffer")


@pytest.mark.parametrize("command", ["up", "gateway", "worker"])
async def test_a_wrong_setting_ends_a_command(command: str, tmp_path: Path) -> None:
    assert "--window-ms" in await refused([command, "--window-ms", "long"], tmp_path)
    environment = {"DOUBLEBUFFER_BATCHSIZE": "3"}
    assert "DOUBLEBUFFER_BATCHSIZE" in await refused([command], tmp_path, environment)
    (tmp_path / "doublebuffer.toml").write_text("windows_ms = 3\n")
    assert "windows_ms in doublebuffer.toml" in await refused([command], tmp_path)


@pytest.mark.parametrize("command", ["gateway", "worker"])
async def test_a_part_alone_needs_redis(command: str, tmp_path: Path) -> None:
    assert "REDIS_URL" in await refused([command], tmp_path)


@pytest.mark.parametrize("command", ["up", "gateway", "worker"])
async def test_a_redis_that_cannot_be_reached_ends_a_command(command: str, tmp_path: Path) -> None:
    backends = '[{"name": "a", "kind": "vllm", "url": "http://127.0.0.1:1"}]'
    flags = ["--port", "0", "--redis-url", NOWHERE, "--backends", backends]
    assert "REDIS_URL: redis://127.0.0.1:1/0" in await refused([command, *flags], tmp_path)


async def test_a_worker_needs_a_back_end(tmp_path: Path) -> None:
    assert "DOUBLEBUFFER_BACKENDS" in await refused(["worker", "--redis-url", "redis://127.0.0.1:1"], tmp_path)


async def test_a_port_in_use_ends_a_command(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "DOUBLEBUFFER_PORT" in await refused(["up", "--port", port], tmp_path)
        assert "--port" in await refused(["simulate", "--port", port], tmp_path)


async def test_several_processes_are_the_gateways(tmp_path: Path) -> None:
    assert "DOUBLEBUFFER_PROCESSES" in await refused(["up", "--port", "0", "--processes", "2"], tmp_path)


async def test_a_back_end_that_is_doublebuffer_ends_a_command(
    tmp_path: Path, llama_server: LlamaServer, redis_url: str
) -> None:
    async with run_command("up", "--port", "0", "--backends", llama_backends(llama_server)) as first:
        await first.is_healthy()
        backends = json.dumps([{"name": "loop", "kind": "openai", "url": first.url}])
        for flags in (["up", "--port", "0"], ["worker", "--redis-url", redis_url]):
            sentence = await refused([*flags, "--backends", backends], tmp_path)
            assert "DOUBLEBUFFER_BACKENDS" in sentence
            assert "'loop'" in sentence


async def test_simulate_serves_both_apis() -> None:
    async with run_command("simulate", "--port", "0", "--time-scale", "0") as process:
        await process.is_healthy("/api/version")
        async with httpx.AsyncClient(base_url=process.url, trust_env=False) as client:
            openai = (await client.get("/v1/models")).json()
            ollama = (await client.get("/api/tags")).json()
        assert [model["id"] for model in openai["data"]] == [model["name"] for model in ollama["models"]]
        assert "SIMULATED" in process.out
        assert await process.stop() == 0


async def test_simulate_refuses_a_profile_that_is_none(tmp_path: Path) -> None:
    assert "abacus" in await refused(["simulate", "--profile", "abacus"], tmp_path)


async def test_the_doctor_finds_all_well(tmp_path: Path, llama_server: LlamaServer, redis_url: str) -> None:
    command = ["doctor", "--redis-url", redis_url, "--backends", llama_backends(llama_server)]
    code, out, _ = await run_to_end(command, directory=tmp_path)
    assert "✗" not in out
    assert code == 0
    assert "Redis: reachable" in out
    assert "tiny-qwen3" in out


async def test_the_doctor_tells_what_to_do(tmp_path: Path, llama_server: LlamaServer) -> None:
    backends = [
        {"name": "away", "kind": "vllm", "url": "http://127.0.0.1:1"},
        {"name": "here", "kind": "llamacpp", "url": llama_server.url, "models": {"big": "not-there"}},
    ]
    command = ["doctor", "--redis-url", NOWHERE, "--backends", json.dumps(backends)]
    code, out, log = await run_to_end(command, directory=tmp_path)
    assert code == 1
    wrong = [line for line in out.splitlines() if line.startswith("✗")]
    assert len(wrong) == out.count("\n  → ") == 3
    assert wrong[0].startswith("✗ Redis: ")
    assert wrong[1].startswith("✗ back end away ")
    assert "not-there" in wrong[2]
    assert "topsecret" not in out + log


async def test_the_doctor_names_a_wrong_setting(tmp_path: Path) -> None:
    code, out, _ = await run_to_end(["doctor", "--window-ms", "long"], directory=tmp_path)
    assert code == 1
    assert out.startswith("✗ settings: --window-ms")


async def test_the_doctor_minds_a_redis_that_evicts(tmp_path: Path, llama_server: LlamaServer) -> None:
    with run_redis("--maxmemory-policy", "allkeys-lru") as server:
        command = ["doctor", "--redis-url", server.url, "--backends", llama_backends(llama_server)]
        code, out, _ = await run_to_end(command, directory=tmp_path)
    assert code == 1
    assert "CONFIG SET maxmemory-policy noeviction" in out


@pytest.mark.parametrize("command", ["gateway", "worker"])
async def test_the_parts_run_as_modules(command: str, tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", command, "--help"), cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    assert out.startswith(f"usage: doublebuffer {command}".encode())


async def test_whoever_reads_may_go_first(tmp_path: Path) -> None:
    """As `doublebuffer doctor | head -1` does: that is no error, and nothing is said of it."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "doublebuffer", "doctor"),
            cwd=tmp_path,
            env=clean_environment() | NO_TLS,
            stdout=writing,
            stderr=asyncio.subprocess.PIPE,
        )
    finally:
        os.close(writing)
    _, log = await asyncio.wait_for(child.communicate(), RUN_S)
    assert (child.returncode, log) == (128 + signal.SIGPIPE, b"")
