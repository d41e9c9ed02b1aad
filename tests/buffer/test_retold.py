"""An answer told from its reply key: each word once, in order, whatever died while it was said."""

from __future__ import annotations

import pytest

from buffer.fold import WHOLE_REPLY
from buffer.heard import Said, fingerprint
from buffer.job import (
    Content,
    End,
    Event,
    Failure,
    Finish,
    Origin,
    Reasoning,
    ToolDelta,
    Usage,
    encode_end,
)
from tests.buffer.entries import DONE, QUEUED, done, ev, mark, read, rest, snap, start, text

PLAIN = [QUEUED, start(10), ev(10, 1, "a", "b"), ev(10, 3, "c", Finish("stop")), done(10, 5)]


def test_an_answer_and_its_end() -> None:
    found = read(PLAIN)
    items = found.take()
    assert [item.id for item in items] == ["10-1", "10-2", "10-3", "10-4"]
    assert text(item.event for item in items) == "abc"
    assert (found.end, found.end_id, found.started_us) == (DONE, "10-5", 10)
    assert found.take() == []


@pytest.mark.parametrize(("after", "had", "left"), [("10-1", "a", "bc"), ("10-2", "ab", "c"), ("10-4", "abc", "")])
def test_from_behind_a_piece(after: str, had: str, left: str) -> None:
    found = read(PLAIN, after)
    assert not found.seeking
    assert (text(item.event for item in found.had), rest(found)) == (had, left)


def test_from_behind_the_end() -> None:
    found = read(PLAIN, "10-5")
    assert (found.seeking, found.take(), found.end_id) == (False, [], "10-5")


def test_a_place_that_is_not_there() -> None:
    found = read(PLAIN, "10-9")
    assert found.seeking
    assert found.take() == []


def test_an_entry_that_overlaps_and_one_behind_a_hole() -> None:
    found = read([start(10), ev(10, 1, "a", "b"), ev(10, 2, "b", "c"), ev(10, 5, "e"), ev(10, 6, "f"), done(10, 7)])
    assert rest(found) == "abc"
    assert found.end is None


def test_a_death_and_an_attempt_that_goes_on() -> None:
    said = Said("ab")
    found = read([start(10), ev(10, 1, "a", "b"), mark("20-0", "lost"), snap("30-0", said), start(40, said)])
    assert rest(found) == "ab"
    for entry in (ev(40, 1, "c", Finish("stop")), done(40, 3)):
        found.add(*entry)
    assert rest(found) == "c"
    assert found.end == DONE


def test_what_a_dead_worker_still_wrote_does_not_count() -> None:
    found = read(
        [start(10), ev(10, 1, "a"), mark("20-0", "lost"), ev(10, 2, "X"), start(30, Said("a")), ev(30, 1, "b")]
    )
    assert rest(found) == "ab"


def test_a_gateway_that_had_less_than_the_reader() -> None:
    """The next attempt goes on from less than was read: it is heard in silence up to there."""
    entries = [
        start(10),
        ev(10, 1, "one ", "two "),
        mark("20-0", "lost"),
        snap("30-0", Said("one ")),
        start(40, Said("one ")),
    ]
    found = read(entries)
    assert rest(found) == "one two "
    found.add(*ev(40, 1, "tw"))
    assert found.take() == []
    found.add(*ev(40, 2, "o three", Usage(1, 4)))
    assert found.take() == [("40-2", Content("three")), ("40-3", Usage(1, 4))]


def test_a_gateway_that_had_more_than_the_reply_key() -> None:
    said = Said("one two ")
    found = read(
        [start(10), ev(10, 1, "one "), mark("20-0", "lost"), snap("30-0", said), start(40, said), ev(40, 1, "x")]
    )
    items = found.take()
    assert [(item.id, text([item.event])) for item in items] == [("10-1", "one "), ("30-0", "two "), ("40-1", "x")]


def test_other_words_than_the_reader_has_end_what_it_reads() -> None:
    entries = [
        start(10),
        ev(10, 1, "one ", "two "),
        mark("20-0", "lost"),
        snap("30-0", Said("one ")),
        start(40, Said("one ")),
    ]
    found = read(entries)
    found.take()
    found.add(*ev(40, 1, "three "))
    assert found.end is not None
    assert found.end.failure is not None
    assert found.end.failure.code == "begun_anew"
    assert found.take() == []
    found.add(*done(40, 2))
    assert found.end.failure.code == "begun_anew"


def test_who_comes_after_that_reads_the_answer_as_it_is() -> None:
    entries = [
        start(10),
        ev(10, 1, "one ", "two "),
        mark("20-0", "lost"),
        snap("30-0", Said("one ")),
        start(40, Said("one ")),
    ]
    found = read([*entries, ev(40, 1, "three ", Finish("stop")), done(40, 3)])
    assert rest(found) == "one three "
    assert found.end == DONE
    assert read([*entries, ev(40, 1, "three "), done(40, 2)], after="10-2").end != DONE
    later = read([*entries, ev(40, 1, "three "), ev(40, 2, "four"), done(40, 3)], after="40-1")
    assert (rest(later), later.end) == ("four", DONE)


@pytest.mark.parametrize("last", [Finish("stop"), ToolDelta(0, "c", "f", "{}")])
def test_what_cannot_be_gone_on_from_is_begun_anew(last: Event) -> None:
    entries = [start(10), ev(10, 1, "a", last), mark("20-0", "lost"), snap("30-0", Said()), start(40)]
    assert rest(read([*entries, ev(40, 1, "b")])) == "b"
    found = read(entries[:2])
    found.take()
    for entry in entries[2:]:
        found.add(*entry)
    assert found.end is not None
    assert found.end.failure is not None


def test_a_first_attempt_that_said_nothing() -> None:
    found = read(
        [start(10), ev(10, 1, Origin("fp")), snap("10-2", Said(), "again"), start(20), ev(20, 1, Origin("fp"), "a")]
    )
    assert rest(found) == "a"


def test_a_retry_within_a_worker() -> None:
    said = Said("ab", "hm")
    found = read(
        [start(10), ev(10, 1, Reasoning("hm"), "ab"), snap("10-3", said, "again"), start(20, said), ev(20, 1, "c")]
    )
    assert rest(found) == "hmabc"


def test_the_next_worker_goes_on_from_the_reply_key() -> None:
    found = read([start(10), ev(10, 1, "a"), mark("20-0", "lost"), start(30, WHOLE_REPLY), ev(30, 1, "b")])
    assert rest(found) == "ab"


def test_thinking_that_was_read_counts() -> None:
    said = Said("", "well, ")
    found = read([start(10), ev(10, 1, Reasoning("well, ")), mark("20-0", "lost"), snap("30-0", Said()), start(40)])
    assert rest(found) == "well, "
    found.add(*ev(40, 1, Reasoning("well, so")))
    assert rest(found) == "so"
    assert fingerprint(said)


def test_a_store_that_came_back_empty() -> None:
    """The gateway has put the answer so far there again; ids from before are known to nobody."""
    said = Said("ab")
    entries = [QUEUED, snap("30-0", said), ev(30, 1, "c"), done(30, 2)]
    assert rest(read(entries)) == "abc"
    assert read(entries, after="10-2").seeking
    live = read([QUEUED, start(10), ev(10, 1, "a")])
    assert rest(live) == "a"
    for entry in entries[1:]:
        live.add(*entry)
    assert (rest(live), live.end) == ("bc", DONE)


@pytest.mark.parametrize("kind", ["failed", "cancelled", "expired"])
def test_an_end_that_is_no_answer_ends_it_wherever_it_stands(kind: str) -> None:
    end = End(kind, Failure("no"))  # type: ignore[arg-type]
    found = read([start(10), ev(10, 1, "a"), ev(10, 5, "x"), mark("20-1", kind, encode_end(end))])
    assert (rest(found), found.end, found.end_id) == ("a", end, "20-1")


def test_thought_and_words_of_a_snapshot_are_one_place() -> None:
    found = read([snap("30-0", Said("b", "a")), ev(30, 1, "c")])
    assert [item.id for item in found.take()] == ["", "30-0", "30-1"]
