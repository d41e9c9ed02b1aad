"""Where answers are kept: their lifetimes, their room, and who forgets them. On the embedded store and on a Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from buffer.access import Store
from buffer.cache import EVERY, Claim, Flight, Shelf
from buffer.cached import Cached, encode_cached
from buffer.job import Content, Finish
from buffer.keys import answers
from buffer.lanes import Lanes
from buffer.store import open_store


@dataclass(frozen=True)
class Question:
    digest: str
    model: str = "m"


ONE, TWO, OTHER = Question("one"), Question("two"), Question("three", "other")
S = 1_000_000


def answer(text: str = "yes") -> bytes:
    return encode_cached(Cached("fast", [Content(text), Finish("stop")]))


@pytest.fixture(params=["embedded", "redis"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    found = await open_store(url, prefix="t-shelf")
    yield found
    await found.redis.flushall()
    await found.aclose()


async def kept(shelf: Shelf, question: Question) -> str | None:
    found = await shelf.ask(question, None, reads=True)
    if found is None:
        return None
    assert isinstance(found, Cached)
    return "".join(event.text for event in found.events if isinstance(event, Content))


async def lives(store: Store) -> None:
    keys = [key async for key in store.redis.scan_iter(match=f"{answers(store.prefix)}*")]
    assert keys
    for key in keys:
        assert await store.redis.ttl(key) > 0, key


async def test_an_answer_is_kept_and_given_again(store: Store) -> None:
    shelf = Shelf(store)
    assert await kept(shelf, ONE) is None
    await shelf.keep(ONE, answer("first"), age_us=0)
    await shelf.keep(TWO, answer("second"), age_us=0)
    assert await kept(shelf, ONE) == "first"
    await shelf.keep(ONE, answer("anew"), age_us=0)
    assert await kept(shelf, ONE) == "anew"
    assert await kept(shelf, TWO) == "second"
    count, held = await shelf.size()
    assert count == 2
    assert held == len(answer("anew")) + len(answer("second")) + 2 * 512
    await lives(store)


async def test_the_oldest_make_room(store: Store) -> None:
    size = len(answer()) + 512
    now = 0
    shelf = Shelf(store, 300, 3 * size, clock=lambda: now)
    for place in range(5):
        now = (place + 1) * S
        await shelf.keep(Question(f"q{place}"), answer(), age_us=0)
        assert (await shelf.size())[1] <= 3 * size
    assert [await kept(shelf, Question(f"q{place}")) for place in range(5)] == [None, None, "yes", "yes", "yes"]
    await shelf.keep(ONE, answer("x" * 4 * size), age_us=0)
    assert await kept(shelf, ONE) is None, "what is larger than all the room is not kept, and takes nobody else's"
    assert (await shelf.size())[0] == 3
    # Those whose life has ended take no room.
    now = 1000 * S
    await shelf.keep(ONE, answer(), age_us=0)
    assert await shelf.size() == (1, size)


async def test_a_model_s_answers_are_forgotten_and_those_that_are_being_made(store: Store) -> None:
    now = 10 * S
    shelf = Shelf(store, clock=lambda: now)
    for question in (ONE, TWO, OTHER):
        await shelf.keep(question, answer(), age_us=0)
    assert await shelf.purge("m") == 2
    assert [await kept(shelf, question) for question in (ONE, TWO, OTHER)] == [None, None, "yes"]
    now += S
    await shelf.keep(ONE, answer("of before"), age_us=2 * S)
    assert await kept(shelf, ONE) is None
    await shelf.keep(ONE, answer("of after"), age_us=S // 2)
    assert await kept(shelf, ONE) == "of after"
    await shelf.keep(OTHER, answer("another's"), age_us=2 * S)
    assert await kept(shelf, OTHER) == "another's"
    assert await shelf.purge(EVERY) == 2
    assert await shelf.size() == (0, 0)
    await lives(store)


async def test_whoever_asks_first_sends_the_job_and_the_others_hear_of_it(store: Store) -> None:
    now = 10 * S
    shelf, lanes = Shelf(store, clock=lambda: now), Lanes(store)
    assert await shelf.ask(ONE, Claim("j1", "default", "a"), reads=True) is None
    now += S
    found = await shelf.ask(ONE, Claim("j2", "default", "b"), reads=True)
    assert found == Flight("j1", "default", S)
    assert await shelf.ask(TWO, Claim("j3", "default", "a"), reads=True) is None
    assert await shelf.ask(ONE, Claim("j4", "default", "c"), reads=True, instead="j1") is None
    # It is over for who had it before.
    await shelf.land(ONE, b"", age_us=0, job="j1", lanes=lanes, failed=True)
    assert await shelf.ask(ONE, Claim("j5", "default", "d"), reads=True) == Flight("j4", "default", 0)
    await shelf.land(ONE, answer(), age_us=0, job="j4", lanes=lanes, failed=False)
    assert await kept(shelf, ONE) == "yes"
    assert await shelf.ask(ONE, Claim("j6", "default", "e"), reads=False) is None
    await lives(store)


async def test_nobody_joins_a_job_of_before_a_purge(store: Store) -> None:
    now = 10 * S
    shelf = Shelf(store, clock=lambda: now)
    assert await shelf.ask(ONE, Claim("j1", "default", "a"), reads=True) is None
    now += S
    await shelf.purge("m")
    now += S
    assert await shelf.ask(ONE, Claim("j2", "default", "b"), reads=True) is None
    assert await shelf.ask(ONE, Claim("j3", "default", "c"), reads=True) == Flight("j2", "default", 0)


async def test_what_another_version_has_kept_is_no_answer(store: Store) -> None:
    shelf = Shelf(store)
    await shelf.keep(ONE, b"\xc1 not ours", age_us=0)
    assert await shelf.ask(ONE, None, reads=True) is None
