"""Each line of an offline batch is in its files once, whatever dies at whatever moment."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buffer import offline as offline_module
from buffer.offline import LineUsage, NoRoom, Offline, Superseded, undone
from tests.offline.kept import LEASE_S, again, batch, lines_of, on_disk, result, running


async def test_a_line_is_settled_once(offline: Offline) -> None:
    one, fence = await running(offline, total=4)
    assert await offline.settle(one.id, fence, [result(1), result(2, ok=False)]) == 2
    assert await offline.settle(one.id, fence, [result(2, text="again"), result(1, ok=False), result(3)]) == 1
    assert await offline.settle(one.id, fence, [result(1)]) == 0
    assert await offline.settle(one.id, fence, []) == 0
    now = await again(offline, one.id)
    assert (now.completed, now.failed, now.usage) == (2, 1, LineUsage(2, 0, 4, 0))
    assert await lines_of(offline, one.id, ok=True) == ["line 1", "line 3"]
    assert await lines_of(offline, one.id, ok=False) == ["line 2"]
    assert undone(await offline.done(one.id), 4) == [4]


async def test_a_line_that_comes_twice_in_one_go_counts_once(offline: Offline) -> None:
    one, fence = await running(offline)
    assert await offline.settle(one.id, fence, [result(5, text="first"), result(5, text="second")]) == 1
    assert await lines_of(offline, one.id, ok=True) == ["first 5"]


async def test_what_was_never_done_is_counted_as_neither(offline: Offline) -> None:
    one, fence = await running(offline, total=2)
    await offline.settle(one.id, fence, [result(1), result(2, ok=False, counts=False)])
    now = await again(offline, one.id)
    assert (now.completed, now.failed) == (1, 0)
    assert await lines_of(offline, one.id, ok=False) == ["line 2"]


async def test_lines_are_settled_while_it_is_cancelled_and_never_later(offline: Offline) -> None:
    one, fence = await running(offline)
    await offline.cancel(one)
    assert await offline.settle(one.id, fence, [result(1)]) == 1
    await offline.move(await again(offline, one.id), fence, "cancelled")
    with pytest.raises(Superseded):
        await offline.settle(one.id, fence, [result(2)])
    assert (await again(offline, one.id)).completed == 1


async def test_nothing_is_settled_before_it_begins_and_while_it_ends(offline: Offline) -> None:
    one = await batch(offline)
    fence = await offline.hold(one.id, "runner", LEASE_S)
    assert fence is not None
    with pytest.raises(Superseded):
        await offline.settle(one.id, fence, [result(1)])
    await offline.move(one, fence, "in_progress", total=1)
    await offline.move(await again(offline, one.id), fence, "finalizing")
    with pytest.raises(Superseded):
        await offline.settle(one.id, fence, [result(1)])


async def test_without_room_nothing_is_done(
    offline: Offline, folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder:
        return
    one, fence = await running(offline)
    monkeypatch.setattr(offline_module, "STORE_BYTES", 30)
    assert await offline.settle(one.id, fence, [result(1)]) == 1
    with pytest.raises(NoRoom, match="DOUBLEBUFFER_FILES"):
        await offline.settle(one.id, fence, [result(2, text="x" * 10), result(3, text="x" * 10)])
    assert undone(await offline.done(one.id), 3) == [2, 3]
    assert await offline.settle(one.id, fence, [result(2)]) == 1
    await offline.move(one, fence, "expired")
    assert await offline.store.redis.hget(offline.keys.room, one.id) is None
    assert int(await offline.store.redis.hget(offline.keys.room, "sum")) == 3


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=12), max_size=12))
async def test_any_order_and_any_repetition_gives_each_line_once(
    offline: Offline, goes: list[list[tuple[int, bool]]]
) -> None:
    one, fence = await running(offline, total=40)
    first: dict[int, bool] = {}
    for number, go in enumerate(goes):
        new = {}
        for line, ok in go:
            new.setdefault(line, ok)
        expected = [line for line in new if line not in first]
        results = [result(line, ok=ok, text=f"go {number} line") for line, ok in go]
        assert await offline.settle(one.id, fence, results) == len(expected)
        first = new | first
    await _is(offline, one.id, first)


async def test_a_runner_that_dies_between_disk_and_books_leaves_nothing_that_counts(
    offline: Offline, folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not folder:
        return
    one, fence = await running(offline, total=3)
    await offline.settle(one.id, fence, [result(1)])

    async def dies(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(offline, "_script", dies)
        with pytest.raises(KeyboardInterrupt):
            await offline.settle(one.id, fence, [result(2, text="unmarked"), result(3, text="unmarked")])
    assert undone(await offline.done(one.id), 3) == [2, 3]
    await offline.renew(one.id, "runner", fence, 0)
    later = await offline.hold(one.id, "next", LEASE_S)
    assert later is not None
    assert await offline.settle(one.id, later, [result(3), result(2, ok=False)]) == 2
    await _is(offline, one.id, {1: True, 2: False, 3: True})


async def test_a_torn_write_is_no_result(offline: Offline, folder: str | None) -> None:
    if not folder:
        return
    one, fence = await running(offline, total=3)
    await offline.settle(one.id, fence, [result(1)])
    (segment,) = (name for name in on_disk(folder) if "results-" in name)
    with (Path(folder) / offline.store.prefix / segment).open("ab") as file:
        file.write(b"half a li")
    assert await offline.settle(one.id, fence, [result(2), result(3, ok=False)]) == 2
    await _is(offline, one.id, {1: True, 2: True, 3: False})


@pytest.mark.parametrize("seed", range(3))
async def test_runners_that_die_and_come_back_do_each_line_once(offline: Offline, seed: int) -> None:
    """Several at a time that hold it, think that they do, repeat themselves and stop anywhere."""
    chance = random.Random(seed)
    total = 120
    one, fence = await running(offline, total=total)
    await offline.renew(one.id, "runner", fence, 0)
    told = Counter[int]()

    async def runner(name: str) -> None:
        mine = await offline.hold(one.id, name, chance.choice([0.0, LEASE_S]))
        if mine is None:
            return
        try:
            todo = undone(await offline.done(one.id), total)
            chance.shuffle(todo)
            for at in range(0, min(len(todo), chance.randrange(10, 60)), 7):
                lines = todo[at : at + 7] + todo[:2]
                told[0] += await offline.settle(one.id, mine, [result(line, ok=line % 5 > 0) for line in lines])
                if chance.random() < 0.2:
                    return  # without giving it up
            await offline.renew(one.id, name, mine, 0)
        except Superseded:
            pass

    number = 0
    async with asyncio.timeout(60):
        while undone(await offline.done(one.id), total):
            await asyncio.gather(*(runner(f"runner {number + each}") for each in range(4)))
            number += 4
            await offline.store.redis.hset(offline.keys.batch(one.id), "until", 0)  # the leases of the dead run out
    assert told[0] == total
    await _is(offline, one.id, {line: line % 5 > 0 for line in range(1, total + 1)})


async def test_many_results_are_read_in_pieces(offline: Offline) -> None:
    one, fence = await running(offline, total=1500)
    for at in range(1, 1501, 100):
        await offline.settle(one.id, fence, [result(line) for line in range(at, at + 100)])
    assert await lines_of(offline, one.id, ok=True) == [f"line {line}" for line in range(1, 1501)]


async def test_what_it_needs_until_its_end_goes_by_itself(offline: Offline) -> None:
    one, fence = await running(offline)
    await offline.settle(one.id, fence, [result(1), result(2, ok=False)])
    for name in ("done", "output", "errors"):
        key = f"{offline.keys.base}{name}:{one.id}"
        assert await offline.store.redis.ttl(key) > 86_400


async def _is(offline: Offline, id: str, lines: dict[int, bool]) -> None:
    """These lines are settled, each once and where it belongs, and no other is."""
    now = await again(offline, id)
    assert (now.completed, now.failed) == (sum(lines.values()), len(lines) - sum(lines.values()))
    assert undone(await offline.done(id), 120) == [line for line in range(1, 121) if line not in lines]
    for ok in (True, False):
        found = [int(text.rpartition(" ")[2]) for text in await lines_of(offline, id, ok=ok)]
        assert sorted(found) == sorted(line for line, was in lines.items() if was == ok)
