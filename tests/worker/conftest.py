from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from buffer.store import Store, open_store
from tests.rig.redis_server import RedisServer, run_redis
from tests.worker.rig import Gate, gate


@pytest.fixture(scope="session")
def real_redis() -> Iterator[RedisServer]:
    with run_redis() as server:
        yield server


@pytest.fixture(params=["embedded", "redis"])
async def store(request: pytest.FixtureRequest, real_redis: RedisServer) -> AsyncIterator[Store]:
    """Either store, with keys of this test's own."""
    url = real_redis.url if request.param == "redis" else None
    store = await open_store(url, prefix=f"t{secrets.token_hex(4)}")
    yield store
    await store.aclose()


@pytest.fixture
async def door(store: Store) -> AsyncIterator[Gate]:
    async with gate(store) as it:
        yield it
