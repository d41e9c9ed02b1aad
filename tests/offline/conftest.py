"""Stores under test, each with files in it and with files in a folder."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from buffer.files import Files
from buffer.offline import Offline
from buffer.store import Store, open_store

_numbers = itertools.count(1)


@pytest.fixture(params=["embedded", "redis", "oldest"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A store with key names of the test's own, where no key may stay without a lifetime."""
    names = {"redis": "redis_server", "oldest": "oldest_redis_server"}
    url = request.getfixturevalue(names[request.param]).url if request.param in names else None
    opened = await open_store(url, prefix=f"offline-{os.getpid()}-{next(_numbers)}")
    yield opened
    for key in await opened.redis.keys(f"{opened.prefix}:offline:*"):
        assert await opened.redis.ttl(key) != -1, key
    await opened.aclose()


@pytest.fixture(params=["folder", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """The setting ``files``."""
    return str(tmp_path / "files") if request.param == "folder" else None


@pytest.fixture
def files(store: Store, folder: str | None) -> Files:
    return Files(store, folder)


@pytest.fixture
def offline(store: Store, files: Files) -> Offline:
    return Offline(store, files)
