"""Two installations for a whole run, each started by the first test that needs it: one with engines that generate, one
with engines that say what a test tells them. No run collects what is here but `make test-openwebui` and, once that has
installed Open WebUI, `pytest -m openwebui tests/openwebui/test_tools.py` for a single file."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.openwebui.api import EMAIL, PASSWORD, Api
from tests.openwebui.browser import Browser, run_browser
from tests.openwebui.installation import Installation, run_installation
from tests.openwebui.scripted import Bench, run_bench


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only who asks for these tests gets them, all of them or those of one file."""
    asked = "OPENWEBUI_VENV" in os.environ or config.option.markexpr == "openwebui"
    return None if asked or not collection_path.name.startswith("test_") else True


OUR_DOING = re.compile(r"back end (llama|simulated) is down|attempt at simulated (broken|refused)")
"""What workers say of engines that tests halt or kill."""
SCRIPTED_DOING = re.compile(r"attempt at (ollama|vllm) (broken|refused|failed)")


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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_bench() -> AsyncIterator[Bench]:
    async with run_bench() as running:
        yield running
        assert await running.site.leftovers() == []
        assert [line for line in running.site.complaints() if not SCRIPTED_DOING.search(line)] == []


@pytest.fixture
def bench(running_bench: Bench) -> Iterator[Bench]:
    """With nothing recorded, and engines that answer by themselves before and after."""
    running_bench.reset()
    yield running_bench
    running_bench.reset()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bench_api(running_bench: Bench) -> AsyncIterator[Api]:
    async with httpx.AsyncClient(base_url=running_bench.front.url, trust_env=False, timeout=60) as client:
        yield await Api.signed_up(client)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bench_browser(running_bench: Bench, bench_api: Api) -> AsyncIterator[Browser]:
    assert bench_api.user
    async with run_browser(running_bench.front.url) as running:
        await running.do("enter", email=EMAIL, password=PASSWORD)
        yield running


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures go: the folder that OPENWEBUI_PICTURES names, else one that pytest clears away."""
    folder = Path(os.environ.get("OPENWEBUI_PICTURES", "") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
