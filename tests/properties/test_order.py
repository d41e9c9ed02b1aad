"""One rule, twice: the pull script for all workers, ``policy.pull`` for the study. The same events, the same picks."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.job import LANES
from policy.credit import Credit
from tests.properties.both import BACKENDS, W, play

ROOM = {name: Credit(slots=1000) for name in BACKENDS}
NOTHING = st.just((0, 0, 0, False, False))
NEEDS = st.tuples(
    st.integers(0, 80), st.integers(0, 40) | st.integers(0, 400), st.integers(0, 9), st.booleans(), st.booleans()
)
CREDIT = st.builds(
    Credit,
    slots=st.integers(1, 6),
    kv=st.sampled_from((0, 60, 120)),
    prefill=st.sampled_from((0, 30)),
    long=st.sampled_from((0, 1)),
    reserved_slots=st.sampled_from((0, 1)),
    kv_reserve=st.sampled_from((0, 10)),
    segment=st.sampled_from((0, 20, 64)),
    pause=st.sampled_from((0, W // 8)),
)


def events(needs: st.SearchStrategy[tuple[int, int, int, bool, bool]]) -> st.SearchStrategy[list[tuple[object, ...]]]:
    after = st.integers(1, W // 4)
    queue = st.tuples(st.sampled_from("mn"), st.sampled_from(LANES))
    submit = st.tuples(st.just("submit"), after, queue, st.sampled_from("abc"), needs, st.integers(1, 50))
    pull = st.tuples(st.just("pull"), after, st.sampled_from(sorted(BACKENDS)), st.integers(0, 4))
    read = st.tuples(st.just("read"), after, st.integers(0, 11))
    settle = st.tuples(st.just("settle"), after, st.integers(0, 11))
    return st.lists(st.one_of(submit, submit, submit, pull, pull, read, settle), min_size=4, max_size=40)


@settings(max_examples=30, deadline=None)
@given(events(NOTHING))
def test_the_same_order_where_all_fits(told: list[tuple[object, ...]]) -> None:
    asyncio.run(play(ROOM, told))


@settings(max_examples=80, deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(BACKENDS, CREDIT)), events(NEEDS))
def test_the_same_picks_where_credit_is_short(credits: dict[str, Credit], told: list[tuple[object, ...]]) -> None:
    asyncio.run(play(credits, told))


def drawn(chance: random.Random) -> tuple[dict[str, Credit], list[tuple[object, ...]]]:
    """What differs often shows late only, in full queues: long schedules, drawn at random, find more there than short
    ones that shrink."""
    some, number = chance.choice, chance.randint
    credits = {
        name: Credit(
            slots=number(1, 9),
            kv=some([0, 1000]),
            prefill=some([0, 1000]),
            long=some([0, 2]),
            reserved_slots=some([0, 1]),
            kv_reserve=some([0, 80]),
            segment=some([0, 64, 256]),
            pause=some([0, 500_000]),
        )
        for name in BACKENDS
    }
    told: list[tuple[object, ...]] = []
    for _ in range(25):
        for _ in range(number(1, 4)):
            need = (number(0, 900), number(0, 900), number(0, 300), chance.random() < 0.5, chance.random() < 0.5)
            queue = (some("mn"), some(LANES))
            told.append(("submit", number(1, 12_000_000), queue, some("uvw"), need, need[0] + 1))
        steps = [some(["read", "read", "settle"]) for _ in range(number(0, 3))]
        told += [(step, number(1, 400_000), number(0, 11)) for step in steps]
        told += [("pull", number(1, 300_000), some(sorted(BACKENDS)), number(0, 4)) for _ in range(number(1, 3))]
    return credits, told


@pytest.mark.parametrize("seed", range(12))
async def test_the_same_picks_in_full_queues(seed: int) -> None:
    await play(*drawn(random.Random(seed)))
