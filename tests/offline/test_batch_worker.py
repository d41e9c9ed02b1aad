"""``doublebuffer batch-worker``: with the real llama.cpp server, killed in the middle; and where it cannot be."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import httpx
import pytest

from buffer.carrying import NO_CLUSTER
from buffer.settings import Settings
from buffer.store import open_store
from doublebuffer.serving import bind
from gateway.app import create_app
from tests.gateway.rig import served
from tests.offline.many import CHATS, EMBEDDINGS, begin, faults_of, harm, installation, line, results
from tests.rig.processes import clean_environment, run_to_end
from tests.rig.redis_server import free_port

pytestmark = pytest.mark.slow
LINES = 80
KILLED_WITH_A_HORSE = """
import asyncio, os, signal, sys, time
from buffer.settings import Settings
from buffer.telemetry import Telemetry
from doublebuffer.metrics import metrics_served

async def main():
    async with metrics_served(Settings(metrics_port=int(sys.argv[1])), Telemetry()):
        if horse := os.fork():
            print(horse, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(1)
        time.sleep(60)
        os._exit(0)

asyncio.run(main())
"""


async def test_the_official_client_gets_each_line_once_whatever_dies() -> None:
    async with installation(slots=4) as here:
        client = here.client()
        endpoints = (CHATS, EMBEDDINGS)
        batches = [
            await begin(client, endpoint, [line(number, endpoint, here.engine.model) for number in range(LINES)])
            for endpoint in endpoints
        ]
        step = 0
        async with asyncio.timeout(90):
            while any(batch.status not in ("completed", "failed", "expired", "cancelled") for batch in batches):
                await asyncio.sleep(0.05)
                batches = [await client.batches.retrieve(batch.id) for batch in batches]
                done = sum(batch.request_counts.completed for batch in batches if batch.request_counts)
                if step < 3 and done > (step + 1) * LINES // 4:
                    await harm(here, step)
                    step += 1
        assert step == 3
        for endpoint, batch in zip(endpoints, batches, strict=True):
            assert batch.status == "completed"
            assert faults_of(await results(client, batch), batch, endpoint, LINES) == []
        assert [process.log for process in here.batch_workers if "Traceback" in process.log] == []
        async with httpx.AsyncClient(trust_env=False) as http:
            told = (await http.get(f"{here.batch_workers[-1].url}/metrics")).text
        assert 'doublebuffer_requests_total{api="batch",lane="background",outcome="ok"}' in told
        assert await here.batch_workers[-1].stop() == 0


async def test_a_cluster_is_refused_in_a_sentence(tmp_path: Path) -> None:
    environment = {"REDIS_URL": "redis+cluster://127.0.0.1:1"}
    code, _, log = await run_to_end(["batch-worker"], environment=environment, directory=tmp_path)
    assert (code, log) == (2, f"doublebuffer: {NO_CLUSTER}\n")


async def test_without_a_redis_there_is_nothing_to_do(tmp_path: Path) -> None:
    code, _, log = await run_to_end(["batch-worker"], directory=tmp_path)
    assert (code, "`doublebuffer batch-worker`" in log) == (2, True), log


async def test_nor_does_a_gateway_on_a_cluster_take_batches() -> None:
    settings = Settings(redis_url="redis+cluster://127.0.0.1:1")
    store = await open_store(None)
    async with served(create_app(settings, store)) as port, httpx.AsyncClient() as client:
        answer = await client.post(f"http://127.0.0.1:{port}/v1/batches", json={})
    await store.aclose()
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, NO_CLUSTER)


async def test_a_work_horse_does_not_hold_the_port_of_a_batch_worker_that_was_killed() -> None:
    """The next one could not begin, for as long as the work-horse finishes what is under way."""
    port = free_port()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED_WITH_A_HORSE, str(port)), env=clean_environment(), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(child.communicate(), 30)
    try:
        assert child.returncode == -signal.SIGKILL
        bind("127.0.0.1", port).close()
    finally:
        os.kill(int(out), signal.SIGKILL)
