"""P1 to P7, P9 and P10 under random schedules: a few seeds here, many by ``python -m tests.properties.run``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.properties.run import one_seed
from tests.rig.redis_server import RedisServer, run_redis

JOBS = 25


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with run_redis() as server:
        yield server


@pytest.mark.parametrize("seed", [3, 7, 9, 12])
async def test_on_redis(redis_server: RedisServer, seed: int) -> None:
    counts = await one_seed(redis_server.url, seed, jobs=JOBS)
    assert counts["done"] > 0


@pytest.mark.parametrize("seed", [5, 14])
async def test_on_the_embedded_store(seed: int) -> None:
    counts = await one_seed(None, seed, jobs=JOBS)
    assert counts["done"] > 0
