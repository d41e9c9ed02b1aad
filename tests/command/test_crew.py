"""``doublebuffer up --workers``: workers come and go."""

from __future__ import annotations

import asyncio
import json
import secrets
from pathlib import Path

import httpx
import pytest

from buffer.backend import ModelInfo
from buffer.load import BackendState, publish_state, read_workers
from buffer.settings import Settings
from buffer.store import open_store
from doublebuffer.crew import Hiring
from policy import crew
from tests.command.test_commands import refused
from tests.rig.processes import run_command
from tests.rig.scripted import Scripted
from tests.worker.rig import gate, spec


async def test_another_worker_takes_what_nobody_has_hands_for(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker of this process is too busy to take anything: here there is none."""
    monkeypatch.setattr(crew, "IDLE_S", 0.5)
    prefix = f"t{secrets.token_hex(4)}"
    store = await open_store(redis_url, prefix=prefix)
    stop = asyncio.Event()
    try:
        async with Scripted("openai") as engine, gate(store) as door, asyncio.TaskGroup() as group:
            settings = Settings(redis_url=redis_url, key_prefix=prefix, workers="1..2", drain_seconds=5)
            given = ["--redis-url", redis_url, "--key-prefix", prefix, "--log-level", "warning"]
            hiring = Hiring(settings, store, [spec(engine, name="here")], given)
            state = BackendState(name="here", kind="openai", up=True, limit=8, models=[ModelInfo("m-oai")])
            await publish_state(store, door.lanes.keys, state, 60.0)
            group.create_task(hiring.run(stop))
            asked = [await door.ask(f"marker:a{number}") for number in range(4)]
            assert [(await one.end(within_s=40)).kind for one in asked] == ["done"] * 4
            assert len(hiring.others) == 1
            async with asyncio.timeout(20):
                while await read_workers(store, door.lanes.keys):
                    await asyncio.sleep(0.05)
            stop.set()
    finally:
        await store.aclose()


@pytest.mark.slow
async def test_two_workers_end_with_the_command_and_count_together(redis_url: str) -> None:
    async with Scripted("openai") as engine:
        prefix = f"t{secrets.token_hex(4)}"
        backends = [{"name": "here", "kind": "openai", "url": engine.url}]
        environment = {"DOUBLEBUFFER_BACKENDS": json.dumps(backends), "REDIS_URL": redis_url}
        environment["DOUBLEBUFFER_KEY_PREFIX"] = prefix
        async with run_command("up", "--port", "0", "--workers", "2", environment=environment) as up:
            await up.is_healthy("/health/ready")
            async with httpx.AsyncClient(base_url=up.url, timeout=20, trust_env=False) as client, asyncio.timeout(40):
                while "doublebuffer_workers 2.0" not in (await client.get("/metrics")).text:
                    await asyncio.sleep(0.1)
                body = {"model": "m-oai", "messages": [{"role": "user", "content": "marker:hi"}]}
                for _ in range(8):
                    assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
                counted = 'doublebuffer_attempts_total{backend="here",result="ok"} 8.0'
                while counted not in (await client.get("/metrics")).text:
                    await asyncio.sleep(0.1)
        assert "Traceback" not in up.log
        store = await open_store(redis_url, prefix=prefix)
        async with gate(store) as door:
            assert await read_workers(store, door.lanes.keys) == []
        await store.aclose()


@pytest.mark.parametrize(
    ("given", "said"),
    [("0..2", "the least is 1 or more"), ("4..2", "the least is 1 or more"), ("many", "such as 1..4")],
)
async def test_a_range_that_is_none(given: str, said: str, tmp_path: Path) -> None:
    assert said in await refused(["up", "--workers", given], tmp_path)


async def test_several_workers_need_a_redis(tmp_path: Path) -> None:
    told = await refused(["up", "--port", "0", "--workers", "1..2", "--embedded", "memory"], tmp_path)
    assert "DOUBLEBUFFER_WORKERS is 1..2, and several workers meet in a Redis" in told
