"""Next to nothing while nothing is asked."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.acceptance.crowd import Ask, ask
from tests.acceptance.site import backends_of, cpu_s, run_engines, run_site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

IDLE_S = 60


async def test_a_minute_of_idleness_costs_next_to_nothing_and_wakes_at_once() -> None:
    chat = Ask("openai", "m-vllm", "marker:hello words:3", True, False)
    async with (
        run_engines() as engines,
        run_site(backends_of(engines)) as site,
        httpx.AsyncClient(base_url=site.url, timeout=30) as client,
    ):
        busy = sorted([(await ask(client, chat)).took_s for _ in range(20)])
        processes = {"gateway": site.gateway, **{f"worker {i}": worker for i, worker in enumerate(site.workers)}}
        before = {name: cpu_s(process.pid) for name, process in processes.items()}
        assert site.redis.process
        redis_before = cpu_s(site.redis.process.pid)
        await asyncio.sleep(IDLE_S)
        used = {name: cpu_s(process.pid) - before[name] for name, process in processes.items()}
        used["redis"] = cpu_s(site.redis.process.pid) - redis_before
        first = await ask(client, chat)
        assert first.content == "hello 1 2 3"
        assert {name: s for name, s in used.items() if s > 0.01 * IDLE_S} == {}
        assert first.took_s <= busy[10] + 0.3, (first.took_s, busy)
        assert site.complaints() == []
