"""The store's pull and the line-up of the study are one rule: the same events, the same jobs in the same order."""

from __future__ import annotations

import random

import pytest

from buffer.job import LANES, End
from buffer.lanes import Lanes
from buffer.records import Limits, NewJob
from buffer.store import open_store
from policy.credit import Credit, Load, Need
from policy.lineup import Lineup, Waiting
from policy.order import offset_s

W_S = 20
START_US = 1_800_000_000_000_000
MODELS = ("a", "b")


def schedule(chance: random.Random) -> tuple[list[object], Credit]:
    """Jobs that come (a tuple of five), jobs that end (their number) and pulls (how many, for which models)."""
    steps: list[object] = []
    for _ in range(25):
        for _ in range(chance.randint(1, 4)):
            size = (chance.randint(0, 900), chance.randint(0, 900), chance.random() < 0.5)
            gap_us = chance.randint(0, 12_000_000)
            steps.append((gap_us, chance.choice(LANES), chance.choice("uvw"), chance.choice(MODELS), size))
        steps += [chance.randint(0, 5) for _ in range(chance.randint(0, 3))]
        steps.append((chance.randint(1, 4), chance.choice([("a",), ("b",), MODELS])))
    some = chance.choice
    credit = Credit(
        slots=chance.randint(1, 9),
        kv=some([0, 1000]),
        prefill=some([0, 1000]),
        long=some([0, 2]),
        reserved_slots=some([0, 1]),
        kv_reserve=some([0, 80]),
    )
    return steps, credit


# Long schedules drawn at random find more here than short ones that shrink: what differs shows late, in full queues.
@pytest.mark.parametrize("seed", range(12))
async def test_pull_and_the_line_up_agree(seed: int) -> None:
    await agree(*schedule(random.Random(seed)))


async def agree(steps: list[object], credit: Credit) -> None:
    store = await open_store(None)
    lanes, lineup, load = Lanes(store), Lineup(float(W_S * 1_000_000)), Load()
    now_us = START_US
    lanes.clock = lambda: now_us
    await lanes.create_inbox("gate:1")
    running: list[tuple[Waiting, int]] = []
    names = iter(range(1000))
    # The last pulls empty both, one after the other.
    for one in [*steps, *([(4, MODELS)] * 3)]:
        match one:
            case (int(gap), str(lane), str(user), str(model), (int(kv), int(prefill), bool(long))):
                now_us += gap + 1
                name = f"job{next(names):04}"
                offset_us = round(offset_s(lane, prefill / 1000, W_S) * 1e6)
                new = NewJob(
                    id=name,
                    model=model,
                    lane=lane,  # type: ignore[arg-type]
                    user=user,
                    inbox="gate:1",
                    body=b"{}",
                    offset_us=offset_us,
                    max_wait_us=W_S * 1_000_000,
                    timeout_us=3_600_000_000,
                    cost=kv + 1,
                    kv=kv,
                    prefill=prefill,
                    long=long,
                )
                await lanes.submit(new)
                lineup.submit(
                    name,
                    now_at=float(now_us),
                    user=user,
                    need=Need(lane, kv, prefill, long),
                    # Offsets in microseconds, as the store has them.
                    prefill_s=prefill * 1000.0,
                    cost=kv + 1,
                    model=model,
                )
            case (int(want), tuple(models)):
                pulled = await lanes.pull("w", "e", models, want=want, limits=Limits(*credit), lease_s=3600)
                expected = lineup.pull(want=want, credit=credit, load=load, models=models)
                assert [granted.id for granted in pulled.jobs] == [waiting.id for waiting in expected]
                running += [(w, g.fence) for w, g in zip(expected, pulled.jobs, strict=True)]
            case int(index) if index < len(running):
                ended, fence = running.pop(index)
                assert await lanes.settle(ended.id, fence, 1, End("cancelled")) == "ok"
                load.remove(ended.need, prefill=ended.need.prefill)
            case _:
                pass
    assert sum(depth.waiting for depth in (await lanes.depths()).values()) == len(lineup)
    await store.aclose()
