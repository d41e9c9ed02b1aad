"""The engine is spared what a perfect cache would spare it. In full: ``python -m tests.cache.zipf``."""

from __future__ import annotations

import pytest

from tests.cache.zipf import MOST_BEYOND, Plan, run

pytestmark = pytest.mark.timeout(120)


async def test_the_engine_is_spared_what_a_perfect_cache_would_spare() -> None:
    account = await run(Plan(questions=500, different=60, ttl_s=1.5))
    assert account.beyond <= MOST_BEYOND, account.page()
    assert account.calls < 250, account.page()
    told = account.results
    assert told["miss"] == account.calls
    assert told["hit"] + told["joined"] + told["miss"] == 500
    assert told["joined"] > 0
