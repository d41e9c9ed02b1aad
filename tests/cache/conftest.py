"""The store of a test that names its ``kind``."""

from __future__ import annotations

import pytest


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str | None:
    return request.getfixturevalue("redis_url") if kind == "redis" else None
