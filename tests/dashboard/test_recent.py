"""What was counted lately, over all processes."""

from __future__ import annotations

import random
import time

import pytest

from buffer.access import Store
from buffer.keys import counted
from buffer.recent import KEPT_S, SLOT_S, Recent, Sums, last_slot, quantile, read_counts, step_of, total
from buffer.telemetry import CacheResult, Telemetry
from buffer.trouble import StoreUnavailable
from tests.gateway.rig import free_store


class Away(Store):
    def __init__(self) -> None:
        self.prefix = "away"

    async def exchange(self, *_: object, **__: object) -> list[object]:
        raise StoreUnavailable("Redis cannot be reached.")


async def test_the_counts_of_several_processes_are_one_sum() -> None:
    store = await free_store()
    try:
        gateway, worker = Telemetry(), Telemetry()
        gateway.request_ended("openai", "fast", "ok")
        gateway.time_to_first_token["fast"].observe(0.5)
        worker.recent.said("big", 7)
        worker.recent.said("big", -2)
        for telemetry in (gateway, worker, gateway):
            telemetry.batch_size.observe(3)
            await telemetry.recent.tell(store)
        slots = await Sums(store).read()
        found = total(slots, int(time.time()) // SLOT_S, 2)
        assert (found.ended, found.said, found.batch) == ({"ok": 1}, 5, {3: 3})
        assert quantile(found.first["fast"], 0.5) == pytest.approx(0.5, rel=0.2)
        keys = await store.redis.keys(f"{store.prefix}:*")
        assert keys
        assert all([0 < await store.redis.ttl(key) <= KEPT_S for key in keys])
    finally:
        await store.aclose()


async def test_who_has_counted_nothing_asks_the_store_for_nothing() -> None:
    await Recent().tell(Away())


async def test_counts_are_kept_while_the_store_is_away_but_no_longer_than_they_are_shown() -> None:
    store = await free_store()
    try:
        recent = Recent()
        recent.add("ended:ok")
        await recent.tell(Away())
        await recent.tell(Away())
        slot = int(time.time()) // SLOT_S
        recent._slots[slot - 1000] = recent._slots[slot].copy()
        await recent.tell(store)
        assert [slot async for slot in store.redis.scan_iter(f"{store.prefix}:*")] != []
        assert total(await Sums(store).read(), slot, 3).ended == {"ok": 1}
        assert await store.redis.exists(counted(store.prefix, slot - 1000)) == 0
        assert recent._slots == {}
    finally:
        await store.aclose()


async def test_old_slots_are_read_once() -> None:
    store = await free_store()
    try:
        sums = Sums(store)
        await sums.read()
        asked: list[int] = []
        exchange = store.exchange

        async def count(commands: list[object], **given: object) -> list[object]:
            asked.append(len(commands))
            return await exchange(commands, **given)  # type: ignore[arg-type]

        store.exchange = count  # type: ignore[method-assign, assignment]
        await sums.read()
        assert asked
        assert asked[0] <= 5
    finally:
        await store.aclose()


def test_quantiles_are_right_to_a_fifth() -> None:
    lots = random.Random(7)
    times = sorted(lots.lognormvariate(0, 1.2) for _ in range(4000))
    found = read_counts({})
    for each in times:
        found.add(read_counts({f"first:fast:{step_of(each)}": 1}))
    for part in (0.5, 0.95):
        assert quantile(found.first["fast"], part) == pytest.approx(times[int(part * 4000)], rel=0.1)
    assert quantile({}, 0.5) is None


def test_what_the_cache_spared_is_a_part_of_what_it_may_answer() -> None:
    telemetry = Telemetry()
    assert read_counts({}).spared is None
    assert read_counts({"cache:bypass": 5}).spared is None
    results: list[CacheResult] = ["hit", "hit", "joined", "miss", "bypass"]
    for result in results:
        telemetry.cached(result)
    (counts,) = telemetry.recent._slots.values()
    found = read_counts(counts)
    found.add(read_counts({"cache:hit": 1, "cache:miss": 1}))
    assert found.cache == {"hit": 3, "joined": 1, "miss": 2, "bypass": 1}
    assert found.spared == pytest.approx(4 / 6)


def test_a_slot_is_shown_once_everybody_had_the_time_to_tell_of_it() -> None:
    assert last_slot(1000.0) == last_slot(1002.4) == 198
    assert last_slot(1002.6) == 199
