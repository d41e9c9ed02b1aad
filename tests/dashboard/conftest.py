"""A Chromium for the tests of a file.

DASHBOARD_PICTURES names a folder to keep its pictures in, for somebody to look at.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.dashboard.chromium import Browser, run_chromium


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with run_chromium() as running:
        yield running


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("DASHBOARD_PICTURES", "") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
