"""What the doctor finds of files and offline batches."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from buffer.files import Files
from buffer.offline import Offline
from buffer.settings import Settings
from buffer.store import Store
from doublebuffer.doctor_offline import BATCHES, FILES, offline_findings
from tests.offline.kept import LEASE_S, batch


@pytest.fixture
def offline(store: Store) -> Offline:
    return Offline(store, Files(store, None))


async def test_without_a_folder_and_batches_there_is_nothing_to_say(store: Store) -> None:
    assert await offline_findings(Settings(), store) == []


async def test_a_folder_that_takes_files(store: Store, tmp_path: Path) -> None:
    (found,) = await offline_findings(Settings(files=str(tmp_path / "new")), store)
    assert (found.topic, found.level) == (FILES, "fine")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # noqa: ASYNC240


async def test_a_folder_that_takes_none(store: Store) -> None:
    (found,) = await offline_findings(Settings(files=f"{__file__}/below"), store)
    assert (found.topic, found.level) == (FILES, "wrong")
    assert "cannot be written to" in found.text
    assert found.remedy


async def test_a_batch_that_nobody_runs(store: Store, offline: Offline) -> None:
    await batch(offline)  # only just begun
    assert await offline_findings(Settings(), store) == []
    old = [await batch(offline, created_at=int(time.time()) - 60) for _ in range(2)]
    (found,) = await offline_findings(Settings(), store)
    assert (found.topic, found.level, "2" in found.text) == (BATCHES, "wrong", True)
    assert "batch-worker" in found.remedy
    assert await offline.hold(old[0].id, "runner", LEASE_S)
    (found,) = await offline_findings(Settings(), store)
    assert "the one" in found.text
    assert await offline.hold(old[1].id, "runner", LEASE_S)
    assert await offline_findings(Settings(), store) == []
