"""One installation for the whole run. `make test-openwebui` starts it; no other run collects what is here."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.openwebui.api import EMAIL, PASSWORD, Api
from tests.openwebui.browser import Browser, run_browser
from tests.openwebui.installation import Installation, run_installation

collect_ignore_glob = [] if "OPENWEBUI_VENV" in os.environ else ["test_*.py"]


OUR_DOING = re.compile(r"back end (llama|simulated) is down|attempt at simulated (broken|refused)")
"""What workers say of engines that tests halt or kill."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def installation() -> AsyncIterator[Installation]:
    """When all is over, nothing is left of any chat, and no process has complained but of what tests did."""
    async with run_installation() as running:
        yield running
        assert await running.site.leftovers() == []
        assert [line for line in running.site.complaints() if not OUR_DOING.search(line)] == []


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def api(installation: Installation) -> AsyncIterator[Api]:
    async with httpx.AsyncClient(base_url=installation.front.url, trust_env=False, timeout=60) as client:
        yield await Api.signed_up(client)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(installation: Installation, api: Api) -> AsyncIterator[Browser]:
    """Signed in as the one user there is."""
    assert api.user
    async with run_browser(installation.front.url) as running:
        await running.do("enter", email=EMAIL, password=PASSWORD)
        yield running


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures go: the folder that OPENWEBUI_PICTURES names, else one that pytest clears away."""
    folder = Path(os.environ.get("OPENWEBUI_PICTURES", "") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
