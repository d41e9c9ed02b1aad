"""A minute of what `make chaos` does for ten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import Options, run_chaos

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


async def test_nothing_is_lost_and_nothing_said_twice_whatever_dies(tmp_path: Path) -> None:
    account = await run_chaos(seed=1, options=Options(seconds=60, clients=40, folder=tmp_path))
    print(account.table())
    assert account.passed, f"{account.table()}\n\n{account.details()}\n\nlogs and traces in {account.folder}"
    assert len(account.broken()) > 20
