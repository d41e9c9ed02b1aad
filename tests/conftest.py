"""What any test may ask for. A machine without what a test needs fails it; nothing is skipped for want of a program."""

from __future__ import annotations

import functools
import gc
import ssl
from collections.abc import Iterator

import pytest

from tests.rig.llama import LlamaServer, run_llama
from tests.rig.redis_server import RedisServer, bundled_binary, redis_binary, run_redis

# Each client of httpx reads all the world's certificates: 20 ms of a core, some thousand times. Once is enough.
ssl.create_default_context = functools.cache(ssl.create_default_context)


def pytest_collection_finish() -> None:
    """Whatever looks for garbage need not look through seven thousand tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def llama_server() -> Iterator[LlamaServer]:
    """One llama.cpp server for the whole run: 8 slots of 1,024 tokens."""
    with run_llama() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One real Redis for the whole run; tests keep apart by their key prefix."""
    with run_redis() as server:
        yield server


@pytest.fixture(scope="session")
def oldest_redis_server(redis_server: RedisServer) -> Iterator[RedisServer]:
    """The oldest that we have, as far as there is another."""
    oldest = bundled_binary()
    if oldest is None or oldest == redis_binary():
        yield redis_server
        return
    with run_redis(binary=oldest) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    return redis_server.url
