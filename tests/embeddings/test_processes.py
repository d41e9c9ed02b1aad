"""A whole installation of processes, and one of its workers killed in the middle of its calls."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.acceptance.site import backend, run_site
from tests.rig.embeddings import close, unit_vector
from tests.rig.scripted import Scripted

MODEL = "nomic-embed-text"


@pytest.mark.slow
async def test_a_worker_killed_amid_a_burst_costs_nobody_an_answer() -> None:
    async with Scripted("openai", kind="vllm", models=[MODEL]) as engine:
        engine.embeddings.gate = asyncio.Event()
        async with (
            run_site([backend("vllm", "vllm", engine.url)], settings={"DOUBLEBUFFER_LEASE_SECONDS": "2"}) as site,
            aiohttp.ClientSession(site.url, connector=aiohttp.TCPConnector(limit=0)) as session,
        ):

            async def one(text: str, path: str) -> None:
                async with session.post(path, json={"model": MODEL, "input": [text, "companion"]}) as answer:
                    assert answer.status == 200, await answer.text()
                    told = await answer.json()
                    found = told["embeddings"] if "embeddings" in told else [i["embedding"] for i in told["data"]]
                    assert close(found[0], unit_vector(text))
                    assert close(found[1], unit_vector("companion"))

            async with asyncio.TaskGroup() as group:
                for i in range(300):
                    group.create_task(one(f"text {i}", "/api/embed" if i % 2 else "/v1/embeddings"))
                await engine.embeddings.received(2)
                site.workers[0].kill()
                await site.workers[0].ended()
                engine.embeddings.gate.set()
            assert await site.leftovers() == []
            assert (await site.metrics())['doublebuffer_requests_total{api="ollama",lane="none",outcome="ok"}'] == 150
