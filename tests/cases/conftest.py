"""One installation per module, and the checks that hold after every case."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cases.rig import Bench, forget, run_bench


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    """Modules that need another one have a fixture of their own by this name."""
    async with run_bench() as found:
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def checked(bench: Bench) -> AsyncIterator[None]:
    forget(bench)
    yield
    await bench.check()
