"""A gateway that was started a moment ago refuses as one that has seen all."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from buffer.load import read_states
from gateway.models import merge
from gateway.refusal import Refusal
from policy.outlook import NOTHING, Outlook
from tests.gateway.one_place import Place, one_place
from tests.gateway.rig import until
from tests.gateway.test_admission import admission, job
from tests.gateway.test_models import state


async def learned(place: Place) -> bool:
    """The back end tells what its answers take."""
    (state,) = await read_states(place.lanes.store, place.lanes.keys)
    figures = {name: seen for told in state.learned.values() for name, (_, seen) in told.items()}
    return figures.get("token_rate", 0) >= 8


async def test_the_first_burst_is_not_let_in_whole() -> None:
    async with one_place(1.0, refuse_wait_seconds=2.0) as place:
        for k in range(8):
            assert (await place.ask(f"Warm {k}", 20)).status_code == 200
        await until(lambda: learned(place))
        async with place.another() as fresh:
            assert (await fresh.ask("The first", 20)).status_code == 200
            waited: list[float] = []
            told: list[int] = []

            async def comes(k: int) -> None:
                asked_at = time.monotonic()
                got = await fresh.ask(f"Question {k}", 20)
                if got.status_code == 200:
                    waited.append(time.monotonic() - asked_at)
                else:
                    error = got.json()["error"]
                    assert (got.status_code, error["code"]) == (503, "wait_too_long")
                    told.append(int(got.headers["retry-after"]))
                    assert f"try again in {told[-1]} s." in error["message"]

            await asyncio.gather(*(comes(k) for k in range(40)))
    assert len(told) >= 20, "all forty were let in"
    assert len(waited) >= 3
    assert max(waited) < 4.5


def test_a_gateway_that_has_seen_nothing_goes_by_what_back_ends_tell() -> None:
    it, clock, _ = admission(refuse_wait_seconds=5.0)
    known = Outlook(told_s=2.0, places=2)
    came = 0
    for k in range(60):
        with suppress(Refusal):
            it.check([(job(), known)])
            it.came(job(f"j{k}"), known)
            came += 1
    assert came == 4, "two in the free places, and two that wait for two and four seconds"
    for k in range(2):
        it.began(f"j{k}")
    clock.now_at = 1.9
    it.left("j0")
    it.began("j2")
    it.check([(job(), known)])
    for k in range(4):
        it.left(f"j{k}")
    clock.now_at = 3_600.0
    it.check([(job(), known)])
    assert not it._busy
    assert not it._jobs


def test_a_lane_that_others_pass_goes_by_what_all_of_them_do() -> None:
    """Thirty wait while others start three times a second; at last the first of them goes, and then one each second."""
    it, clock, _ = admission(refuse_wait_seconds=120.0)
    for k in range(30):
        it.came(job(f"normal{k}"), NOTHING)
    for k in range(50):
        it.came(job(f"first{k}", lane="fast"), NOTHING)
        clock.now_at += 0.3
        it.began(f"first{k}")
        it.left(f"first{k}")
    for k in range(12):
        it.began(f"normal{k}")
        it.check([(job(), NOTHING)])
        it.came(job(f"more{k}"), NOTHING)
        clock.now_at += 1.0


def test_what_other_gateways_have_waiting_makes_the_told_gap_longer() -> None:
    it, clock, _ = admission(refuse_wait_seconds=10.0)
    known = Outlook(told_s=1.0, places=1)
    it.came(job("mine"), known)
    it.waits(10)
    clock.now_at = 1.0
    with pytest.raises(Refusal) as refused:
        it.check([(job(), known)])
    assert "(20 s) is over the 10 s" in refused.value.failure.message


def test_what_back_ends_tell_of_their_places() -> None:
    told: dict[str, Any] = {"kind": "ollama", "limit": 1}
    expected: list[tuple[list[dict[str, Any]], list[tuple[int, int]]]] = [
        ([{"limit": 3, "kv_tokens": 900}, {"slots": 8}], [(3, 900), (8, 0)]),
        ([{"limit": 3, "up": False}, {"limit": 3, "breaker_open": True}, {}], []),
        ([told | {"in_turn": True}], [(1, 0)]),
        ([told], [(4, 0)]),  # it was never tried with two
        ([{"limit": 3}, {"limit": 9, "fallback_for": ["b0"]}], [(3, 0)]),
        ([{"limit": 3, "up": False}, {"limit": 9, "fallback_for": ["b0"]}], [(9, 0)]),
    ]
    for facts, places in expected:
        model = merge([state(f"b{number}", "m", **one) for number, one in enumerate(facts)], 1).find("m")
        assert model is not None
        assert model.engines == places
