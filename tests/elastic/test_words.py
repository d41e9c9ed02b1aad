"""What the log says of a spare: that it is down, only where it should run."""

from __future__ import annotations

import pytest

from buffer.store import Store
from tests.elastic.rig import a_site, end, heard, stands, started, told
from tests.worker.rig import Gate


async def test_one_that_rests_is_not_called_down(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with a_site(monkeypatch) as site:
        crew = await started(store, site.spec())
        try:
            await stands(door.lanes, "stopped")
            asked = await door.ask("marker:one")
            assert (await asked.end()).kind == "done"
            await told(door.lanes, lambda state: state.spare == "stopped" and not state.up and site.stops == 1)
        finally:
            await end(crew)
    assert "spare spare is starting" in caplog.text
    assert "is down" not in caplog.text


async def test_one_that_is_lost_is_called_down(
    store: Store, door: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with a_site(monkeypatch) as site:
        crew = await started(store, site.spec(idle_stop_seconds=600))
        try:
            asked = await door.ask("marker:one")
            assert (await asked.end()).kind == "done"
            await heard(crew, "up")
            assert "is down" not in caplog.text
            await site.end()
            crew.workers[0].pools[0].engines[0].look.set()
            await told(door.lanes, lambda state: not state.up)
            assert "back end spare is down" in caplog.text
        finally:
            await end(crew)
