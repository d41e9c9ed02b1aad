from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import backends.wire
from backends.wire import Events, Lines, LineTooLongError
from tests.backends.streams import NAMES, cuts, recorded


def payloads(pieces: list[bytes]) -> list[bytes]:
    events = Events()
    found = [payload for piece in pieces for payload in events.feed(piece)]
    return found + events.flush()


def test_lines_end_at_line_feeds_only() -> None:
    data = "a\u2028b\u0085c\x0bd\r\ne\re\n".encode()
    assert Lines().feed(data) == ["a\u2028b\u0085c\x0bd".encode(), b"e\re"]


def test_rest_of_a_line_waits_for_its_end() -> None:
    lines = Lines()
    assert lines.feed(b"on") == []
    assert lines.feed(b"e\ntw") == [b"one"]
    assert lines.flush() == b"tw"
    assert lines.flush() == b""


def test_byte_order_mark_is_passed_over() -> None:
    assert Lines().feed(b"\xef\xbb\xbfdata: x\n") == [b"data: x"]


def test_line_of_64_mib_is_taken_and_an_endless_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, piece = Lines(), bytes(1024 * 1024)
    for _ in range(64):
        assert lines.feed(piece) == []
    assert len(lines.feed(b"\n")[0]) == 64 * 1024 * 1024
    monkeypatch.setattr(backends.wire, "LINE_LIMIT", 100)
    with pytest.raises(LineTooLongError):
        lines.feed(bytes(101))


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata:b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b": keep-alive\n\n:\n\ndata: a\n\n", [b"a"]),
        (b"event: x\nid: 7\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data:  two spaces\n\n", [b" two spaces"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data: a\n\ndata: no blank line", [b"a", b"no blank line"]),
    ],
)
def test_payloads_of_events(stream: bytes, expected: list[bytes]) -> None:
    assert payloads([stream]) == expected
    assert payloads([stream[i : i + 1] for i in range(len(stream))]) == expected


@pytest.mark.parametrize("name", NAMES)
@given(places=st.lists(st.integers(0, 20_000), max_size=40))
def test_any_cut_of_a_recorded_stream_gives_the_same_payloads(name: str, places: list[int]) -> None:
    data = recorded(name)
    assert payloads(cuts(data, places)) == payloads([data])
