"""A line that takes seconds to be looked at holds nobody else up."""

from __future__ import annotations

import json
import threading

import pytest

from buffer.offline import Offline
from gateway.dialects import offline as dialect
from gateway.dialects.offline import Line
from gateway.offline import reading
from gateway.offline.checking import look_through
from gateway.offline.reading import Lines
from tests.offline.kept import batch, upload


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
