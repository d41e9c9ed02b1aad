"""Frames, and an attempt's memory of what it has sent and appended."""

from __future__ import annotations

import pytest

from buffer.attempt import Attempt
from buffer.frames import Part, pack, unpack
from buffer.job import Content, Event, Reasoning, decode_events
from buffer.records import Granted
from buffer.said import Chunk


def test_frames_of_either_form_are_read() -> None:
    parts = [Part("a", 5, 1, "ev", [Content("x"), Reasoning("y")]), Part("b", 7, 2)]
    assert unpack({b"p": pack(parts)}) == parts
    plain = {b"id": b"a", b"f": b"5", b"n": b"0", b"k": b"start", b"d": b" back"}
    assert unpack(plain) == [Part("a", 5, 0, "start", [], " back")]
    assert unpack({b"k": b"open"}) == []


def granted(det: bool = False) -> Granted:
    return Granted(
        id="a",
        fence=5,
        model="m",
        lane="fast",
        user="u",
        inbox="g:1",
        prefix="",
        base="",
        spent=0,
        fails=0,
        taken=0,
        arr_us=1,
        waited_us=1,
        kv=1,
        prefill=1,
        long=False,
        det=det,
        deadline_us=1,
        cost=1,
    )


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Content))


def write(attempt: Attempt, text: str) -> None:
    attempt.write([Content(letter) for letter in text])


def appended(attempt: Attempt) -> Chunk:
    chunk = attempt.chunk()
    assert chunk is not None
    assert attempt.was_appended(chunk, chunk.n)
    return chunk


def test_an_attempt_sends_and_appends_each_event_once() -> None:
    attempt = Attempt(granted())
    assert (attempt.part(), attempt.chunk()) == (None, None)
    write(attempt, "ab")
    part = attempt.part()
    assert part is not None
    assert (part.n, texts(part.events)) == (1, "ab")
    attempt.was_sent(2)
    write(attempt, "c")
    part = attempt.part()
    assert part is not None
    assert (part.n, texts(part.events)) == (3, "c")
    chunk = appended(attempt)
    assert (chunk.n0, chunk.n, texts(decode_events(chunk.events))) == (1, 3, "abc")
    part = attempt.part()
    assert part is not None
    assert texts(part.events) == "c"
    attempt.was_sent(3)
    assert attempt.all_sent()
    assert attempt.all_appended()
    assert attempt.recent_bytes == 0


@pytest.mark.parametrize("back_to", range(7))
@pytest.mark.parametrize("sent", range(7))
def test_an_attempt_can_append_again_from_any_number(back_to: int, sent: int) -> None:
    attempt = Attempt(granted())
    for text in ("ab", "cd", "ef"):
        write(attempt, text)
        appended(attempt)
    attempt.was_sent(sent)
    assert attempt.has_only(back_to)
    chunk = attempt.chunk()
    if back_to == 6:
        assert chunk is None
    else:
        assert chunk is not None
        assert (chunk.n0, texts(decode_events(chunk.events))) == (back_to + 1, "abcdef"[back_to:])
    part = attempt.part()
    assert (texts(part.events) if part else "") == "abcdef"[sent:]


def test_an_append_that_was_there_in_part_goes_on_behind_it() -> None:
    attempt = Attempt(granted())
    write(attempt, "abc")
    chunk = attempt.chunk()
    assert chunk is not None
    assert attempt.was_appended(chunk, 2)
    attempt.was_sent(3)
    chunk = attempt.chunk()
    assert chunk is not None
    assert (chunk.n0, texts(decode_events(chunk.events))) == (3, "c")
    assert attempt.was_appended(chunk, 3)
    assert attempt.has_only(0)
    chunk = attempt.chunk()
    assert chunk is not None
    assert texts(decode_events(chunk.events)) == "abc"


def test_what_is_kept_has_a_bound() -> None:
    attempt = Attempt(granted())
    for _ in range(10):
        attempt.write([Content("x" * 1_000_000)])
        appended(attempt)
        attempt.was_sent(attempt.n)
    assert attempt.has_only(9)
    assert not attempt.has_only(0)
    assert not attempt.has_only(11)
