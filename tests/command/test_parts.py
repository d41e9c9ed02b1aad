"""Gateway and workers as processes of their own, meeting in Redis."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from pathlib import Path

import httpx

from tests.command.test_up import ask_openai, llama_backends, models
from tests.rig.llama import LlamaServer
from tests.rig.processes import run_command
from tests.rig.redis_server import free_port


def meeting_in(redis_url: str) -> list[str]:
    """Flags of processes that belong together."""
    return ["--redis-url", redis_url, "--key-prefix", f"test-{secrets.token_hex(4)}"]


async def test_a_gateway_and_a_worker_meet_in_redis(llama_server: LlamaServer, redis_url: str) -> None:
    flags = meeting_in(redis_url)
    async with run_command("gateway", "--port", "0", *flags) as gateway:
        await gateway.is_healthy()
        async with httpx.AsyncClient(base_url=gateway.url, trust_env=False) as client:
            assert (await client.get("/health/ready")).status_code == 503
        metrics = str(free_port())
        worker_flags = ["--backends", llama_backends(llama_server), "--metrics-port", metrics]
        async with run_command("worker", *flags, *worker_flags) as worker:
            await gateway.is_healthy("/health/ready")
            assert await models(gateway.url) == ["tiny-qwen3"]
            answer = await ask_openai(gateway.url, "tiny-qwen3", max_tokens=5)
            assert answer.status_code == 200, answer.text
            await worker.is_healthy("/metrics")
            async with httpx.AsyncClient(trust_env=False) as client:
                text = (await client.get(f"{worker.url}/metrics")).text
            assert 'doublebuffer_attempts_total{backend="llama",result="ok"} 1.0' in text
            assert await worker.stop() == 0
        assert await gateway.stop() == 0
        assert "Traceback" not in gateway.log + worker.log


async def test_several_processes_share_a_port_and_their_counters(llama_server: LlamaServer, redis_url: str) -> None:
    flags = meeting_in(redis_url)
    async with (
        run_command("gateway", "--port", "0", "--processes", "2", *flags) as gateway,
        run_command("worker", *flags, "--backends", llama_backends(llama_server)),
    ):
        await gateway.is_healthy("/health/ready")
        children = await children_of(gateway.pid, 2)
        answers = await asyncio.gather(*(ask_openai(gateway.url, "tiny-qwen3", max_tokens=3) for _ in range(12)))
        assert [answer.status_code for answer in answers] == [200] * 12
        assert [await answered(gateway.url) for _ in range(6)] == [12.0] * 6

        os.kill(children[0], signal.SIGKILL)
        assert children[1] in await children_of(gateway.pid, 2, without=children[0])
        assert (await ask_openai(gateway.url, "tiny-qwen3", max_tokens=3)).status_code == 200
        assert await answered(gateway.url) == 13.0
        children = await children_of(gateway.pid, 2)
        assert await gateway.stop() == 0
        assert not any(alive(pid) for pid in children)


async def test_the_processes_end_with_their_parent(redis_url: str) -> None:
    async with run_command("gateway", "--port", "0", "--processes", "2", *meeting_in(redis_url)) as gateway:
        await gateway.is_healthy()
        children = await children_of(gateway.pid, 2)
        gateway.kill()
        for pid in children:
            await gone(pid)


async def test_a_wrong_back_end_does_not_stop_the_others(llama_server: LlamaServer, redis_url: str) -> None:
    flags = meeting_in(redis_url)
    backends = [
        *json.loads(llama_backends(llama_server)),
        {"name": "away", "kind": "vllm", "url": "http://127.0.0.1:1"},
    ]
    async with (
        run_command("gateway", "--port", "0", *flags) as gateway,
        run_command("worker", *flags, "--backends", json.dumps(backends)) as worker,
    ):
        await worker.has_said(r"back end   away .* not answering yet")
        await gateway.is_healthy("/health/ready")
        assert (await ask_openai(gateway.url, "tiny-qwen3", max_tokens=3)).status_code == 200


async def answered(url: str) -> float:
    """Chats that were answered, by the metrics of whichever process takes the connection."""
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"{url}/metrics")).text
    wanted = [line for line in text.splitlines() if line.startswith("doublebuffer_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in wanted if 'outcome="ok"' in line)


async def children_of(pid: int, count: int, *, without: int = 0) -> list[int]:
    """The process's children, once it has so many."""
    async with asyncio.timeout(20):
        while True:
            found = [child for child in children_now(pid) if child != without]
            if len(found) == count:
                return found
            await asyncio.sleep(0.05)


def children_now(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended and whose parent has not asked yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> None:
    """Waits until a process that is nobody's child here has ended; nothing tells when."""
    async with asyncio.timeout(10):
        while True:
            if not alive(pid):
                return
            await asyncio.sleep(0.05)
