"""What an idempotency key stands for, and who waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from buffer.keys import CLAIMED_S, DONE_JOB_S, claimed
from buffer.store import Store

START = 1_700_000_000_000_000


@pytest.fixture
def key(store: Store) -> str:
    return claimed(store.prefix, "d")


async def claim(store: Store, key: str, job: str, client: str, **more: Any) -> list[str]:
    fields = {"request": "r", "det": 0, "instead": "", "now": START} | more
    args = [fields["now"], job, "default", fields["request"], client, fields["det"], CLAIMED_S, fields["instead"]]
    return [part.decode() for part in await store.script("claim", keys=[key], args=args)]


async def leave(store: Store, key: str, job: str, client: str, why: str = "left") -> int:
    return int(await store.script("leave", keys=[key], args=[START, job, client, why, DONE_JOB_S]))


async def test_the_first_has_it_and_others_join(store: Store, key: str) -> None:
    assert await claim(store, key, "a", "1") == ["new"]
    assert await claim(store, key, "b", "2", now=START + 5) == ["job", "a", "default", "5"]
    assert await store.redis.ttl(key) == pytest.approx(CLAIMED_S, abs=2)


async def test_another_request_has_no_part_in_it(store: Store, key: str) -> None:
    await claim(store, key, "a", "1")
    before = await store.redis.hgetall(key)
    assert await claim(store, key, "b", "2", request="other") == ["other"]
    assert await claim(store, key, "b", "2", request="other", instead="a") == ["other"]
    assert await store.redis.hgetall(key) == before


async def test_a_job_that_gave_no_answer_is_replaced_once(store: Store, key: str) -> None:
    await claim(store, key, "a", "1")
    assert await claim(store, key, "b", "2", instead="a") == ["new"]
    assert (await claim(store, key, "c", "3", instead="a"))[:2] == ["job", "b"]
    assert await leave(store, key, "b", "2") == 0
    assert await leave(store, key, "b", "3") == 1


async def test_the_last_that_leaves_is_told_so_once(store: Store, key: str) -> None:
    await claim(store, key, "a", "1")
    await claim(store, key, "b", "2")
    assert await leave(store, key, "a", "1") == 0
    assert await leave(store, key, "a", "1") == 0
    assert await leave(store, key, "a", "2") == 1
    assert await leave(store, key, "a", "2") == 0
    assert await store.redis.exists(key) == 0


async def test_who_stayed_away_of_another_job_changes_nothing(store: Store, key: str) -> None:
    await claim(store, key, "a", "1")
    for why in ("left", "answered", "failed"):
        assert await leave(store, key, "b", "1", why) == 0
    assert await store.redis.hget(key, "client:1") == b"1"
    assert await store.redis.ttl(key) > DONE_JOB_S


async def test_a_detached_one_is_wanted_by_nobody_and_goes_on(store: Store, key: str) -> None:
    await claim(store, key, "a", "1")
    await claim(store, key, "b", "2", det=1)
    assert [await leave(store, key, "a", client) for client in ("1", "2")] == [0, 0]
    assert await store.redis.hget(key, "job") == b"a"


async def test_how_long_it_stands_after_the_end(store: Store, key: str) -> None:
    await claim(store, key, "a", "1")
    await leave(store, key, "a", "1", "answered")
    assert await store.redis.ttl(key) == pytest.approx(DONE_JOB_S, abs=2)
    await leave(store, key, "a", "1", "failed")
    assert await store.redis.exists(key) == 0
