"""The store under test: the embedded one, the server on PATH, and the oldest server that we support."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from buffer.follower import Follower
from buffer.inbox import Inbox
from buffer.keys import FIXED, SELF_EMPTYING
from buffer.lanes import Lanes
from buffer.store import Store, open_store
from tests.buffer.parts import Noted
from tests.rig.redis_server import RedisServer, run_redis

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with run_redis() as server:
        yield server


@pytest.fixture(params=["embedded", "redis", "oldest"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A store with key names of the test's own."""
    names = {"redis": "redis_server", "oldest": "oldest_redis_server"}
    url = request.getfixturevalue(names[request.param]).url if request.param in names else None
    opened = await open_store(url, prefix=f"test-{os.getpid()}-{next(_numbers)}")
    yield opened
    await opened.aclose()


@pytest.fixture
async def lanes(store: Store) -> AsyncIterator[Lanes]:
    """Lanes that leave no key without a lifetime, but those of fixed name and the ones that empty themselves."""
    lanes = Lanes(store)
    yield lanes
    assert await without_lifetime(lanes) == []


async def without_lifetime(lanes: Lanes) -> list[str]:
    """Keys that live for ever and should not."""
    left = await lanes.leftovers()
    return [one.key for one in left if one.ttl_s == -1 and not _may_stay(lanes, one.key)]


@pytest.fixture
async def inbox(lanes: Lanes) -> Inbox:
    """A gateway's inbox, made but not yet read."""
    inbox = Inbox(lanes, "gate", watch_s=0.2)
    await inbox.create()
    return inbox


@pytest.fixture
async def desk() -> Noted:
    return Noted()


@pytest.fixture
async def follower(desk: Noted) -> Follower:
    return Follower(desk, "a")


def _may_stay(lanes: Lanes, key: str) -> bool:
    name = key.removeprefix(lanes.keys.base)
    return name in FIXED or name.startswith(SELF_EMPTYING)
