"""P1 to P7, P9 and P10 under random schedules: a few seeds here, many by ``python -m tests.properties.run``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.properties.run import one_seed
from tests.rig.redis_server import RedisServer, bundled_binary, run_redis


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with run_redis() as server:
        yield server


@pytest.fixture(scope="module")
def oldest_server() -> Iterator[RedisServer]:
    with run_redis(binary=bundled_binary()) as server:
        yield server


@pytest.mark.parametrize("seed", [3, 4, 7, 9])
def test_on_redis(redis_server: RedisServer, seed: int) -> None:
    assert one_seed(redis_server.url, seed)["done"] > 0


@pytest.mark.parametrize("seed", [12, 13])
def test_on_the_oldest_redis(oldest_server: RedisServer, seed: int) -> None:
    assert one_seed(oldest_server.url, seed)["done"] > 0


@pytest.mark.parametrize("seed", [5])
def test_on_the_embedded_store(seed: int) -> None:
    assert one_seed(None, seed, jobs=20)["done"] > 0
