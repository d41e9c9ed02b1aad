from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from buffer.store import Store, open_store
from tests.worker.rig import Gate, gate


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    """A real Redis, with keys of this test's own."""
    store = await open_store(redis_url, prefix=f"t{secrets.token_hex(4)}")
    yield store
    await store.aclose()


@pytest.fixture
async def door(store: Store) -> AsyncIterator[Gate]:
    async with gate(store) as it:
        yield it
