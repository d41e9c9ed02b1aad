"""The whole of it on a Redis that is several servers: over a Sentinel's failovers, and on a Cluster of three nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from redis.crc import key_slot

from tests.acceptance.crowd import ask, asks, faults
from tests.acceptance.site import Site, backend, backends_of, run_engines, run_site
from tests.rig.processes import run_to_end
from tests.rig.redis_groups import Cluster, run_cluster, run_sentinels

pytestmark = pytest.mark.timeout(180)

KINDS = ("vllm", "ollama")
DELAY_S = 0.06
WORDS = 50
IN_FLIGHT = {"DOUBLEBUFFER_MAX_IN_FLIGHT": "8"}


async def _over(
    site: Site, fault: Callable[[], Awaitable[None]], models: list[str], *, seed: int, chats: int = 12
) -> Counter[str]:
    """Chats of which most are in the middle of their answers when ``fault`` begins, and what was wrong with them."""
    what = asks(chats, models, seed=seed, words=(WORDS, WORDS))
    async with (
        httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as client,
        asyncio.TaskGroup() as group,
    ):
        running = [group.create_task(ask(client, one)) for one in what]
        await site.is_at(chats)
        await fault()
        answers = [await task for task in running]
    return faults(what, answers)


async def _ready(site: Site) -> None:
    await site.gateway.is_healthy("/health/ready", within_s=20)


async def test_chats_go_on_over_failovers() -> None:
    """Copying to a replica is not waited for, so the new master may be a moment behind: gateways and workers make up
    for that.
    """
    with run_sentinels() as sentinels:
        async with (
            run_engines(delay_s=DELAY_S, kinds=KINDS) as engines,
            run_site(backends_of(engines), settings=IN_FLIGHT, store=sentinels) as site,
        ):
            models = [f"m-{kind}" for kind in KINDS]

            async def by_hand() -> None:
                await asyncio.to_thread(sentinels.fail_over)

            async def by_death() -> None:
                await asyncio.to_thread(sentinels.kill_master)

            before = sentinels.port
            assert await _over(site, by_hand, models, seed=1) == {}
            await _ready(site)
            assert await site.leftovers() == []
            between = sentinels.port
            # The old master has to have become a replica that may be promoted.
            await asyncio.to_thread(sentinels.until_replicated)
            assert await _over(site, by_death, models, seed=2) == {}
            await _ready(site)
            assert len({before, between}) == 2
            assert sentinels.port != between
            assert await site.leftovers() == []


def _pools(nodes: Cluster) -> list[str]:
    """Names of pools that live on two nodes."""
    homes: dict[int, str] = {}
    for i in range(100):
        homes.setdefault(nodes.owner(key_slot(f"doublebuffer:{{p{i}}}:".encode())).port, f"p{i}")
    return list(homes.values())[:2]


@pytest.mark.parametrize("fault", ["restart", "death"])
async def test_two_pools_on_two_nodes_of_a_cluster(fault: str) -> None:
    """One of the nodes comes back empty, or its replica takes its place; the other pool does not notice."""
    with run_cluster(replicas=fault == "death") as nodes:
        pools = _pools(nodes)
        slot = key_slot(f"doublebuffer:{{{pools[0]}}}:".encode())
        home = nodes.owner(slot)

        async def strike() -> None:
            home.stop()
            if fault == "restart":
                home.start()

        async with run_engines(delay_s=DELAY_S, kinds=KINDS) as engines:
            backends = [
                backend(f"e-{kind}", kind, engine.url, pool=pool)
                for (kind, engine), pool in zip(engines.items(), pools, strict=True)
            ]
            async with run_site(backends, settings=IN_FLIGHT, store=nodes) as site:
                assert await _over(site, strike, [f"m-{kind}" for kind in KINDS], seed=3) == {}
                await _ready(site)
                assert (nodes.owner(slot) is home) == (fault == "restart")
                assert await site.leftovers() == []


async def test_a_sentinel_that_knows_no_such_service_ends_the_command(tmp_path: Path) -> None:
    with run_sentinels() as sentinels:
        url = sentinels.url.replace("/main/", "/other/")
        code, _, log = await run_to_end(
            ["worker", "--redis-url", url, "--backends", '[{"name":"a","kind":"vllm","url":"http://127.0.0.1:1"}]'],
            directory=tmp_path,
        )
    assert code == 2
    assert log.splitlines()[-1].endswith("The Sentinels know no service of the name in REDIS_URL.")
