"""A pull that a batch worker carries out, as one of those who want it sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from buffer.pulls import Pulls
from buffer.store import StoreUnavailable
from buffer.timing import Backoff
from gateway.dialects.management import NO_END, failed


class Said(NamedTuple):
    """Lines that are new; or, where nothing is, the last one again."""

    lines: bytes
    end: bytes = b""
    """The very last line, of a success or of an error; empty: not yet."""


async def follow(pulls: Pulls, backend: str, body: bytes, heartbeat_s: float) -> AsyncIterator[Said]:
    """From its beginning to its end, waiting for a store that is away in the middle. Raises ``StoreUnavailable`` if it
    cannot be begun.
    """
    pull = await pulls.begin(backend, body)
    last, after = b"", ""
    backoff = Backoff()
    while True:
        try:
            told = await pulls.follow(pull, after, heartbeat_s)
            lost = not told.lines and not await pulls.there(pull)
        except StoreUnavailable:
            await backoff.wait()
            continue
        backoff.reset()
        after = told.after
        if lost:
            yield Said(b"", failed(NO_END))
            return
        if told.ended:
            yield Said(b"".join(told.lines[:-1]), told.lines[-1])
            return
        last = told.lines[-1] if told.lines else last
        yield Said(b"".join(told.lines) or last)
