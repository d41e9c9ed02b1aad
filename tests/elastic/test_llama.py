"""The real llama.cpp server as a spare: nobody started it, and it answers."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import time
from contextlib import AsyncExitStack

import httpx
import pytest

from tests.elastic.processes import children, descendants, gone
from tests.elastic.rig import llama_command
from tests.rig.processes import run_command
from tests.rig.redis_server import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
MODEL = "tiny-qwen3"
PROMPT = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "stream": True}


async def ask(client: httpx.AsyncClient, path: str) -> list[tuple[float, str]]:
    """Lines of a stream, and when each came, in seconds since the request."""
    began_at = time.monotonic()
    async with client.stream("POST", path, json=PROMPT) as answer:
        assert answer.status_code == 200
        return [(time.monotonic() - began_at, line) async for line in answer.aiter_lines() if line]


async def is_up(client: httpx.AsyncClient) -> bool:
    return 'doublebuffer_backend_up{backend="spare"} 1.0' in (await client.get("/metrics")).text


async def test_it_is_started_by_load_answers_and_is_stopped_when_idle() -> None:
    port = free_port()
    spare = {"name": "spare", "kind": "llamacpp", "url": f"http://127.0.0.1:{port}", "models": {MODEL: MODEL}}
    # So long until it even begins: clients hear after five that something is under way.
    starts_s = 9.0
    spare |= {"start": llama_command(port, model=MODEL, after_s=starts_s), "idle_stop_seconds": 2}
    environment = {"DOUBLEBUFFER_BACKENDS": json.dumps([spare])}
    async with run_command("up", "--port", "0", environment=environment) as up:
        await up.is_healthy("/health/ready")
        async with httpx.AsyncClient(base_url=up.url, timeout=60, trust_env=False) as client:
            async with asyncio.timeout(30):
                while MODEL not in (await client.get("/v1/models")).text:
                    await asyncio.sleep(0.1)
            assert not await is_up(client)
            paths = ("/v1/chat/completions", "/v1/chat/completions", "/api/chat")
            answers = await asyncio.gather(*(ask(client, path) for path in paths))
            for lines in answers:
                assert len(lines) > 2
                assert 4.0 < lines[0][0] < starts_s, "no sign of life while the engine started"
            assert answers[0][0][1].startswith(":")
            assert answers[0][-1][1] == "data: [DONE]"
            assert json.loads(answers[2][-1][1])["done"] is True
            async with asyncio.timeout(30):
                while "spare spare is stopped" not in up.log:
                    await asyncio.sleep(0.1)
            assert not await is_up(client)
            assert MODEL in (await client.get("/v1/models")).text
        assert up.log.count("spare spare is starting") == 1
        assert "Traceback" not in up.log
        print(up.log)
    with socket.socket() as nobody:
        assert nobody.connect_ex(("127.0.0.1", port)) != 0


async def test_it_does_not_outlive_the_worker_that_started_it_though_a_shell_did(redis_url: str) -> None:
    """Two workers; the one that started it is killed, and the other starts it anew once somebody waits."""
    port = free_port()
    command = shlex.join(llama_command(port, model=MODEL))
    spare = {"name": "spare", "kind": "llamacpp", "url": f"http://127.0.0.1:{port}", "models": {MODEL: MODEL}}
    spare["start"] = ["sh", "-c", f"{command}; true"]
    environment = {"DOUBLEBUFFER_BACKENDS": json.dumps([spare]), "REDIS_URL": redis_url}
    environment |= {"DOUBLEBUFFER_KEY_PREFIX": "orphan", "DOUBLEBUFFER_LEASE_SECONDS": "3"}
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(run_command("gateway", "--port", "0", environment=environment))
        workers = [await stack.enter_async_context(run_command("worker", environment=environment)) for _ in range(2)]
        await gateway.is_healthy("/health/ready")
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60, trust_env=False) as client:
            assert (await ask(client, "/v1/chat/completions"))[-1][1] == "data: [DONE]"
            (first,) = [worker for worker in workers if "spare spare is starting" in worker.log]
            (keeper,) = children(first.pid)
            engine = descendants(keeper)
            assert len(engine) > 2
            first.kill()
            await gone(keeper, *engine)
            assert (await ask(client, "/v1/chat/completions"))[-1][1] == "data: [DONE]"
    (second,) = [worker for worker in workers if worker is not first]
    assert second.log.count("spare spare is starting") == 1
    assert "Traceback" not in second.log
