"""Lines that take seconds to be looked at, or to be given up, hold nobody else up."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading

import pytest

from buffer.offline import Offline
from gateway.dialects import offline as dialect
from gateway.dialects.offline import Line
from gateway.dialects.offline_results import CANCELLED
from gateway.offline import reading
from gateway.offline.checking import look_through
from gateway.offline.ending import rest_of
from gateway.offline.reading import Lines
from tests.offline.kept import LEASE_S, again, batch, upload
from tests.offline.rig import lines


async def test_a_large_line_is_looked_at_beside_the_loop(offline: Offline, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    check_line = dialect.check_line

    def checked(data: bytes, number: int, endpoint: str) -> object:
        threads.append(threading.current_thread())
        return check_line(data, number, endpoint)

    monkeypatch.setattr(dialect, "check_line", checked)
    monkeypatch.setattr(reading, "check_line", checked)
    body = {"model": "m", "messages": [], "nested": [[]] * 150_000}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    record = await upload(offline.files, json.dumps(line).encode())
    begun = await batch(offline, record)
    found = await look_through(offline.files, offline, begun, record)
    assert (found.errors, found.total) == ([], 1)
    read = await Lines(offline, offline.files, begun, record).read(1)
    assert isinstance(read, Line)
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_others_have_their_turns_while_many_lines_are_given_up(offline: Offline) -> None:
    record = await upload(offline.files, "".join(lines(1000)).encode())
    begun = await batch(offline, record)
    fence = await offline.hold(begun.id, "runner", LEASE_S)
    assert fence is not None
    found = await look_through(offline.files, offline, begun, record)
    await offline.move(begun, fence, "in_progress", total=found.total, model=found.model)
    begun = await again(offline, begun.id)
    turns: list[int] = []
    settled = 0

    async def other() -> None:
        while True:
            turns.append(settled)
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    try:
        numbers = range(1, found.total + 1)
        async for rest in rest_of(Lines(offline, offline.files, begun, record), begun.id, numbers, CANCELLED):
            settled += await offline.settle(begun.id, fence, rest)
    finally:
        beside.cancel()
    assert settled == 1000
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 100
