"""P8: within a queue, with none due, users take turns whatever the order in which they sent their requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.lanes import Lanes
from buffer.records import Limits, NewJob
from buffer.store import open_store

START = 1_790_000_000_000_000
COST = 100


async def served(order: Sequence[str], at_once: int) -> list[str]:
    """Users in the order of their pulls, ``at_once`` a pull; all had submitted before, as in ``order``."""
    store = await open_store(None)
    try:
        lanes = Lanes(store)
        now = START
        lanes.clock = lambda: now
        await lanes.create_inbox("g:1")
        for number, user in enumerate(order):
            now += 1000
            await lanes.submit(
                NewJob(id=f"j{number}", model="m", lane="slow", user=user, inbox="g:1", body=b"{}", cost=COST)
            )
        users: list[str] = []
        while len(users) < len(order):
            pulled = await lanes.pull("w", "b", ["m"], want=at_once, limits=Limits(slots=1000), lease_s=60)
            assert pulled.jobs
            users += [job.user for job in pulled.jobs]
        return users
    finally:
        await store.aclose()


@st.composite
def orders(draw: st.DrawFn) -> tuple[int, list[str]]:
    users, each = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    return users, draw(st.permutations([f"u{user}" for user in range(users) for _ in range(each)]))


@settings(max_examples=40, deadline=None)
@given(orders(), st.integers(1, 3))
def test_each_round_serves_every_user(order: tuple[int, list[str]], at_once: int) -> None:
    count, sent = order
    users = asyncio.run(served(sent, at_once))
    for start in range(0, len(users), count):
        assert len(set(users[start : start + count])) == count, users
    for start in range(len(users) - 2 * count + 2):
        assert len(set(users[start : start + 2 * count - 1])) == count, users
