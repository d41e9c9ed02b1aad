"""The store's pull and the line-up of the study are one rule: the same events, the same jobs in the same order."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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

job = st.tuples(
    st.integers(0, 9_000_000),
    st.sampled_from(LANES),
    st.sampled_from("uvw"),
    st.sampled_from(MODELS),
    st.tuples(st.integers(0, 900), st.integers(0, 900), st.booleans()),
)
pull = st.tuples(st.integers(1, 4), st.sampled_from([("a",), ("b",), MODELS]))
step = st.one_of(job, pull, st.integers(0, 5))
credits = st.builds(
    Credit,
    st.integers(1, 9),
    st.sampled_from([0, 1000]),
    st.sampled_from([0, 1000]),
    st.sampled_from([0, 2]),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 80]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(step, max_size=40), credits)
def test_pull_and_the_line_up_agree(steps: list[object], credit: Credit) -> None:
    asyncio.run(agree(steps, credit))


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
