"""Guessing at the sign-in: a few tries from an address, then it has to wait."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from buffer.keys import tries
from buffer.settings import Settings
from buffer.store import open_store
from gateway.app import create_app
from gateway.dashboard import brake
from gateway.dashboard.brake import COUNTS, MOST_TRIES, WINDOW_S, Brake, _count_of
from tests.dashboard.test_sign_in import ANN, KEYS, keyed
from tests.gateway.rig import Rig, free_store, served


async def guess(r: Rig, key: str = "wrong", url: str = "", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url or r.url, timeout=20) as client:
        return await client.post("/dashboard/sign-in", data={"key": key}, headers=headers)


async def test_after_some_wrong_keys_even_a_right_one_has_to_wait() -> None:
    async with keyed() as r:
        assert [(await guess(r)).status_code for _ in range(MOST_TRIES)] == [401] * MOST_TRIES
        for key in ("wrong", ANN):
            answer = await guess(r, key)
            wait_s = int(answer.headers["retry-after"])
            assert answer.status_code == 429
            assert 0 < wait_s <= WINDOW_S
            assert f"Too many wrong keys came from this address; try again in {wait_s} s." in answer.text
            assert "set-cookie" not in answer.headers


async def test_as_many_at_once_as_one_likes_are_no_more() -> None:
    async with keyed() as r:
        answers = await asyncio.gather(*(guess(r) for _ in range(3 * MOST_TRIES)))
        assert Counter(answer.status_code for answer in answers) == {401: MOST_TRIES, 429: 2 * MOST_TRIES}


async def test_right_keys_count_for_nothing() -> None:
    async with keyed() as r:
        for _ in range(MOST_TRIES - 1):
            await guess(r)
        assert [(await guess(r, ANN)).status_code for _ in range(2 * MOST_TRIES)] == [303] * 2 * MOST_TRIES


async def test_it_holds_at_every_gateway_on_the_store_and_for_one_address() -> None:
    async with keyed() as r, served(create_app(Settings(api_keys=list(KEYS)), r.store)) as port:
        for _ in range(MOST_TRIES):
            await guess(r)
        other = f"http://127.0.0.1:{port}"
        assert (await guess(r, url=other)).status_code == 429
        # A proxy on this machine tells whom it speaks for.
        assert (await guess(r, url=other, **{"x-forwarded-for": "198.51.100.7"})).status_code == 401


async def test_who_is_signed_in_stays_so_while_others_guess() -> None:
    async with keyed() as r, httpx.AsyncClient(base_url=r.url, timeout=20) as ann:
        await ann.post("/dashboard/sign-in", data={"key": ANN})
        for _ in range(MOST_TRIES + 1):
            await guess(r)
        assert (await ann.get("/dashboard/data")).status_code == 200


async def test_time_lets_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brake, "WINDOW_S", 1)
    store = await free_store()
    try:
        it = Brake(store)
        while not (wait_s := await it.wait_s("10.0.0.1")):
            pass
        assert wait_s == 1
        async with asyncio.timeout(30):
            while await it.wait_s("10.0.0.1"):
                await asyncio.sleep(0.05)
    finally:
        await store.aclose()


async def test_what_it_keeps_is_bounded_and_goes_by_itself(redis_url: str) -> None:
    store = await open_store(redis_url, prefix="brake")
    try:
        it = Brake(store)
        for number in range(300):
            await it.wait_s(f"10.0.{number // 100}.{number % 100}")
            await it.wait_s("10.9.9.9")
        kept = await store.redis.keys(f"{tries('brake')}*")
        assert 250 < len(kept) <= 301
        for key in kept:
            assert 0 < await store.redis.pttl(key) <= WINDOW_S * 1000
            assert await store.redis.llen(key) <= MOST_TRIES
    finally:
        await store.redis.flushdb()
        await store.aclose()


def test_whose_a_count_is() -> None:
    same = [
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
        ("fe80::1%eth0", "fe80::1%eth1"),
    ]
    for one, other in same:
        assert _count_of(one) == _count_of(other)
    counts = {_count_of(f"10.{a}.{b}.7") for a in range(100) for b in range(100)}
    assert len(counts) > COUNTS * 0.8
    assert all(0 <= int(count) < COUNTS for count in counts)
    assert _count_of("") == _count_of("")
    assert _count_of("2001:db8:1:2::1") != _count_of("2001:db8:1:3::1")
