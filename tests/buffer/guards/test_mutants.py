"""Each guard, taken out of its script: its test fails then. And no line that guards something is without one."""

from __future__ import annotations

import pytest

from tests.buffer.guards.lines import WAIVED, lines, unguarded
from tests.buffer.guards.mutants import Mutant, mutants
from tests.buffer.guards.taking_out import survives
from tests.rig.redis_server import RedisServer

TABLE = mutants()


@pytest.mark.parametrize("mutant", TABLE, ids=[f"{number}-{one.file}" for number, one in enumerate(TABLE)])
async def test_without_it_its_test_fails(mutant: Mutant, redis_server: RedisServer) -> None:
    assert not await survives(redis_server.url, mutant), f"{mutant.test.__name__} holds also without {mutant.name}"


def test_every_line_that_guards_something_has_a_test() -> None:
    assert unguarded() == []


def test_what_is_waived_is_there() -> None:
    assert set(WAIVED) - set(lines()) == set()
