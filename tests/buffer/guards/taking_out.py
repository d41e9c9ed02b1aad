"""A guard's test with the guard in, and with it out."""

from __future__ import annotations

import itertools
import os

import pytest
from redis.exceptions import ResponseError

from buffer import scripting
from buffer.file_record import FileLost, NoRoom
from buffer.lanes import Lanes
from buffer.offline import Superseded, UnknownFile
from buffer.store import StoreUnavailable, open_store
from tests.buffer.conftest import without_lifetime
from tests.buffer.guards.changing import script_text
from tests.buffer.guards.mutants import Mutant, Test

FAILURES = (
    *(AssertionError, pytest.fail.Exception, LookupError, ValueError),
    *(ResponseError, StoreUnavailable, NoRoom, FileLost, Superseded, UnknownFile),
)
"""What a test of a guard ends with that does not hold."""
_numbers = itertools.count(1)


async def run(url: str | None, test: Test) -> str:
    """Runs a test on a store of its own; tells how it failed. Empty: it did not."""
    store = await open_store(url, prefix=f"guards-{os.getpid()}-{next(_numbers)}")
    try:
        lanes = Lanes(store)
        await test(lanes)
        left = await without_lifetime(lanes)
        return f"no lifetime: {left}" if left else ""
    except FAILURES as error:
        return f"{type(error).__name__}: {error}"
    finally:
        await store.aclose()


async def survives(url: str | None, mutant: Mutant) -> bool:
    """Whether the test holds without the guard too. Raises ``NotThere``, and
    ``ResponseError`` if the server cannot read what is left.
    """
    with script_text(mutant.file, mutant.text()):
        await _read(url)
        return not await run(url, mutant.test)


async def _read(url: str | None) -> None:
    if url is None:
        return
    store = await open_store(url)
    try:
        for part in scripting.by_sha().values():
            await store.redis.script_load(part.source)
    finally:
        await store.aclose()
