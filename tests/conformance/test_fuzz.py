"""No body, however odd, makes the gateway fail or hang; by hand with more: ``python -m tests.conformance.fuzz``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.fields import FIELDS
from tests.conformance.fuzz import Fuzzed, fuzz, fuzzed

EXAMPLES = 200


@pytest.fixture(scope="module")
def it() -> Iterator[Fuzzed]:
    with fuzzed() as found:
        yield found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("route", FIELDS)
def test_no_body_makes_the_gateway_fail_or_hang(it: Fuzzed, route: str) -> None:
    it.statuses.clear()
    fuzz(it, route, EXAMPLES)
    assert sum(it.statuses.values()) >= EXAMPLES / 2


def test_every_route_that_takes_a_body_is_tried(it: Fuzzed) -> None:
    assert set(it.routes) == set(FIELDS)
