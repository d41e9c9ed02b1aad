"""Standing orders where Redis is several servers, where there are several pools, and where wires are poor."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.rig.proxy import Proxy
from tests.rig.redis_groups import run_cluster, run_sentinels
from tests.rig.redis_server import RedisServer
from tests.rig.scripted import Scripted
from tests.worker.idle import Site, site, until
from tests.worker.rig import gate, spec, working

pytestmark = pytest.mark.timeout(60)


async def test_on_a_cluster_each_pool_has_its_own() -> None:
    """They live on several nodes, and each is attended where its keys are."""
    with run_cluster() as cluster:
        async with site(cluster.url) as it, Scripted("openai") as engine:
            store = it.stores[0]
            names = ("default", "second", "third")
            specs = [spec(engine, name=f"in-{name}", pool=name, max_in_flight=1) for name in names]
            async with working(store, *specs) as crew:
                for name in names:
                    async with gate(store, name) as door:
                        its = Site(door, crew, [store], engine)
                        await its.stand()
                        its.pulls.clear()
                        if name == "default":
                            continue
                        await its.serves(name)
                        assert its.pulls == []
            await it.stand()
            it.pulls.clear()
            await it.serves()
            assert it.pulls == []


async def test_over_a_failover() -> None:
    with run_sentinels() as sentinels:
        async with site(sentinels.url, 2) as it:
            await it.stand()
            await it.serves("before")
            await asyncio.to_thread(sentinels.fail_over)
            await it.serves_again("after")


async def test_whose_wire_was_lost_gets_back_what_went_to_nobody(real_redis: RedisServer) -> None:
    """All of its connections lead nowhere, and the server does not know that."""
    async with Proxy(real_redis.port) as proxy, site(real_redis.url, worker_url=proxy.url, lease_seconds=2.0) as it:
        await it.stand()
        proxy.strand()
        began_at = time.monotonic()
        await it.serves()
        assert time.monotonic() - began_at < 12
        assert len(it.engine.requests) == 1


async def test_a_subscription_that_was_cut_is_no_more_than_that(
    real_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(real_redis.url, lease_seconds=1.0) as it:
        await it.stand()
        pool = it.pool()
        await it.door.lanes.store.redis.client_kill_filter(_type="pubsub")
        await it.serves("pulled")
        assert it.pulls
        pool.standing._again_at = 0.0
        await it.serves("once-more")
        await it.stand()
        await until(lambda: _heard(it))
        it.pulls.clear()
        await it.serves("offered")
        assert it.pulls == []
    assert [one for one in caplog.records if one.levelname != "INFO"] == []


async def _heard(it: Site) -> bool:
    pool = it.pool()
    return bool((await it.door.lanes.store.redis.pubsub_numsub(pool.lanes.keys.ctl(pool.worker)))[0][1])
