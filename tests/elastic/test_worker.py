"""Spares as workers see to them: started by one of them for those who wait, and stopped when nobody does."""

from __future__ import annotations

import asyncio

import pytest

from buffer.store import Store
from tests.elastic.rig import a_site, end, heard, nobody_decides, stands, started, state_of, told
from tests.rig.scripted import Scripted
from tests.worker.rig import Gate, spec
from worker import elastic


async def test_it_is_started_once_for_all_who_wait_and_stopped_when_idle(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_site(monkeypatch) as site:
        crew = await started(store, site.spec(), crew=3)
        try:
            state = await stands(door.lanes, "stopped")
            assert (state.up, state.comes, state.comes_in_s) == (False, True, 300.0)
            assert site.starts == 0
            asked = [await door.ask(f"marker:a{number}") for number in range(6)]
            assert [(await one.end()).kind for one in asked] == ["done"] * 6
            assert [one.text for one in asked] == [f"a{number} 1 2 3 4 5" for number in range(6)]
            assert site.starts == 1
            state = await stands(door.lanes, "stopped")
            assert (site.starts, site.stops) == (1, 1)
            again = await door.ask("marker:again")
            assert (await again.end()).kind == "done"
            assert site.starts == 2
        finally:
            await end(crew)


async def test_what_comes_while_it_closes_keeps_it(store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_site(monkeypatch) as site:
        monkeypatch.setattr("policy.spares.CLOSING_S", 5.0)
        crew = await started(store, site.spec(), crew=2)
        try:
            first = await door.ask("marker:one")
            assert (await first.end()).kind == "done"
            await stands(door.lanes, "closing")
            second = await door.ask("marker:two")
            assert (await second.end()).kind == "done"
            assert (site.starts, site.stops) == (1, 0)
        finally:
            await end(crew)


async def test_it_is_not_stopped_amid_an_answer(store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_site(monkeypatch) as site:
        site.engine.engine.delay_s = 0.25
        crew = await started(store, site.spec(idle_stop_seconds=0.1))
        try:
            asked = await door.ask("marker:slow words:8")
            assert (await asked.end()).kind == "done"
            assert asked.text == "slow 1 2 3 4 5 6 7 8"
            assert (site.starts, site.stops) == (1, 0)
            await stands(door.lanes, "stopped")
        finally:
            await end(crew)


@pytest.mark.parametrize("own_process", [True, False])
async def test_a_store_that_forgot_it_makes_no_second_one(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch, own_process: bool
) -> None:
    """Amid its start, and amid an answer."""
    async with a_site(monkeypatch, own_process=own_process) as site:
        # However busy this machine is: nobody is to take over from a worker that is only slow.
        monkeypatch.setattr(elastic, "LEAST_LEASE_S", 10.0)
        monkeypatch.setattr(elastic, "FORGOTTEN_S", 2.0)
        site.engine.engine.delay_s = 0.1
        site.begins.clear()
        crew = await started(store, site.spec(), crew=2)
        try:
            asked = await door.ask("marker:slow words:12")
            await heard(crew, "starting")
            await store.redis.delete(door.lanes.keys.spare("spare"))
            await asyncio.sleep(0.3)
            site.begins.set()
            await asked.begin()
            await heard(crew, "up")
            await store.redis.delete(door.lanes.keys.spare("spare"))
            assert (await asked.end()).kind == "done"
            assert asked.text == "slow 1 2 3 4 5 6 7 8 9 10 11 12"
            assert (site.starts, site.stops) == (1, 0)
            await stands(door.lanes, "stopped")
            assert site.stops == 1
        finally:
            await end(crew)


async def test_a_long_wait_starts_it(store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """One busy engine: the sixth in its queue would wait for longer than it may."""
    async with (
        Scripted("openai") as busy,
        a_site(monkeypatch) as site,
    ):
        busy.engine.delay_s = 1.0
        spare = site.spec(start_above_seconds=20.0, max_in_flight=8)
        crew = await started(store, spec(busy, max_in_flight=1), spare)
        try:
            await told(door.lanes, lambda state: state.spare == "stopped")
            first = await door.ask("marker:first words:20")
            await busy.received()
            second = await door.ask("marker:second words:20")
            await asyncio.sleep(0.5)
            assert site.starts == 0
            more = [await door.ask(f"marker:m{number}") for number in range(6)]
            assert [(await one.end()).kind for one in more[2:]] == ["done"] * 4
            assert site.starts == 1
            for one in (first, second, *more):
                await door.lanes.cancel(one.id)
        finally:
            await end(crew)


async def test_one_that_does_not_start_is_tried_again(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_site(monkeypatch) as site:
        site.broken = "There is no card for it."
        crew = await started(store, site.spec(), crew=2)
        try:
            asked = await door.ask("marker:patient")
            state = await stands(door.lanes, "failed")
            assert (state.error, state.comes) == ("There is no card for it.", False)
            site.broken = ""
            assert (await asked.end()).kind == "done"
            assert site.starts >= 2
        finally:
            await end(crew)


async def test_who_waits_for_one_that_does_not_start_is_told_why(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_site(monkeypatch) as site:
        site.broken = "There is no card for it."
        crew = await started(store, site.spec(), crew=2)
        try:
            asked = [await door.ask("marker:a"), await door.ask("marker:b", lane="background")]
            for one in asked:
                end_ = await one.end()
                assert end_.kind == "failed"
                assert end_.failure is not None
                assert end_.failure.status == 503
                assert end_.failure.message == (
                    "The back end that serves this model could not be started: There is no card for it."
                )
            assert site.starts == 2
        finally:
            await end(crew)


@pytest.mark.parametrize("own_process", [True, False])
async def test_another_takes_over_from_a_worker_that_died(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch, own_process: bool
) -> None:
    """While it starts: a process of the dead worker's is started anew, what somebody else runs is waited for."""
    async with a_site(monkeypatch, own_process=own_process) as site:
        site.begins.clear()
        crew = await started(store, site.spec())
        try:
            asked = await door.ask("marker:patient")
            await stands(door.lanes, "starting")
            await crew.kill()
            assert (await state_of(door.lanes)) is not None
            other = await started(store, site.spec())
            crew.tasks[0] = other.tasks[0]
            site.begins.set()
            if not own_process:
                await site.engine.__aenter__()
                site.running = True
            assert (await asked.end()).kind == "done"
            assert site.starts == (2 if own_process else 1)
            await stands(door.lanes, "stopped")
            assert site.stops == 1
        finally:
            crew.stop.set()
            other.stop.set()
            await asyncio.gather(*crew.tasks, *other.tasks, return_exceptions=True)


async def test_one_that_runs_is_stopped_by_whoever_is_left(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_site(monkeypatch) as site:
        crew = await started(store, site.spec(idle_stop_seconds=1.5), crew=2)
        try:
            assert (await (await door.ask("marker:one")).end()).kind == "done"
            assert site.starts == 1
            await crew.kill(0)
            await stands(door.lanes, "stopped")
            assert (site.starts, site.stops) == (1, 1)
        finally:
            await crew.kill(0)
            crew.stop.set()
            await asyncio.gather(*crew.tasks, return_exceptions=True)


async def test_a_worker_that_stops_ends_what_is_its_own(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_site(monkeypatch, own_process=True) as site:
        crew = await started(store, site.spec(idle_stop_seconds=60.0))
        assert (await (await door.ask("marker:one")).end()).kind == "done"
        assert site.running
        await end(crew)
        assert not site.running
        assert await nobody_decides(door.lanes)


async def test_a_worker_that_stops_leaves_what_others_can_stop(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_site(monkeypatch) as site:
        crew = await started(store, site.spec(idle_stop_seconds=60.0))
        assert (await (await door.ask("marker:one")).end()).kind == "done"
        await end(crew)
        assert site.running
        assert await nobody_decides(door.lanes)
