"""The reply key's one reader, and an attempt's memory."""

from __future__ import annotations

import pytest

from buffer.fold import WHOLE_REPLY, beyond, fold
from buffer.heard import Said, encode_said, fingerprint
from buffer.job import Content, End, Event, Logprobs, Origin, Reasoning, Usage, encode_end, encode_events

Entry = tuple[str, dict[bytes, bytes]]
DONE = End("done")


def mark(at: str, kind: str, data: str = "") -> Entry:
    return at, {b"k": kind.encode(), b"n": at.partition("-")[2].encode(), b"d": data.encode()}


def ev(fence: int, n0: int, *texts: str) -> Entry:
    events: list[Event] = [Content(text) for text in texts]
    last = n0 + len(texts) - 1
    return f"{fence}-{last}", {b"k": b"ev", b"n": str(n0).encode(), b"d": encode_events(events)}


def end(at: str, kind: str = "done") -> Entry:
    return at, {b"k": kind.encode(), b"n": at.partition("-")[2].encode(), b"d": encode_end(End(kind))}  # type: ignore[arg-type]


def told(text: str) -> str:
    """Words as marks carry them."""
    return encode_said(Said(text))


def base(text: str) -> str:
    return fingerprint(Said(text))


QUEUED = mark("0-1", "queued")


def test_a_whole_answer() -> None:
    answer = fold([QUEUED, mark("5-0", "start"), ev(5, 1, "a", "b"), ev(5, 3, "c"), end("5-4")])
    assert (answer.whole().text, answer.end, answer.fence, answer.n) == ("abc", DONE, 5, 3)


def test_behind_a_hole_nothing_counts() -> None:
    answer = fold([QUEUED, mark("5-0", "start"), ev(5, 1, "a"), ev(5, 3, "c"), ev(5, 4, "d"), end("5-5")])
    assert (answer.whole().text, answer.end, answer.n, answer.counts) == ("a", None, 1, False)


def test_what_came_twice_counts_once() -> None:
    answer = fold([mark("5-0", "start"), ev(5, 1, "a", "b"), ev(5, 2, "b", "c")])
    assert answer.whole().text == "abc"


def test_a_foreign_fence_does_not_count() -> None:
    assert fold([mark("5-0", "start"), ev(5, 1, "a"), ev(6, 2, "b")]).whole().text == "a"


def test_a_retry_begins_with_the_text_it_was_given() -> None:
    entries = [
        mark("5-0", "start"),
        ev(5, 1, "a"),
        mark("5-2", "again", told("ab")),
        mark("6-0", "start", base("ab")),
        ev(6, 1, "c"),
        end("6-2"),
    ]
    answer = fold(entries)
    assert (answer.whole().text, answer.end) == ("abc", DONE)
    assert answer.all_events() == [Content("ab"), Content("c")]


def test_a_start_from_nothing_drops_the_text() -> None:
    answer = fold([mark("5-0", "start"), ev(5, 1, "a"), mark("6-0", "start"), ev(6, 1, "b")])
    assert answer.whole().text == "b"


def test_a_start_from_another_text_stops() -> None:
    answer = fold([mark("5-0", "start"), ev(5, 1, "a"), mark("6-0", "start", "9:9"), ev(6, 1, "b"), end("6-2")])
    assert (answer.whole().text, answer.end) == ("a", None)


def test_after_a_death_nothing_counts_until_the_text_is_given() -> None:
    entries = [mark("5-0", "start"), ev(5, 1, "a"), mark("6-0", "lost")]
    answer = fold(entries)
    assert (answer.dead, answer.fence, answer.whole().text) == (True, 6, "a")
    assert fold([*entries, ev(6, 1, "x")]).whole().text == "a"
    more = [*entries, mark("7-0", "snap", told("a")), mark("8-0", "start", base("a")), ev(8, 1, "b")]
    assert fold(more).whole().text == "ab"
    assert not fold(more).dead


@pytest.mark.parametrize("kind", ["failed", "cancelled", "expired"])
def test_an_end_without_promise_counts_anywhere(kind: str) -> None:
    answer = fold([mark("5-0", "start"), ev(5, 1, "a"), mark("6-0", "lost"), end("6-1", kind), ev(6, 2, "x")])
    assert answer.end is not None
    assert answer.end.kind == kind
    assert answer.whole().text == "a"


def test_a_dead_workers_answer_whose_figures_were_missing_is_whole() -> None:
    entries = [mark("5-0", "start"), ev(5, 1, "a"), mark("6-0", "lost"), end("6-1")]
    assert fold(entries).end == DONE
    holed = [mark("5-0", "start"), ev(5, 2, "b"), mark("6-0", "lost"), end("6-1")]
    assert fold(holed).end is None
    assert fold([*entries[:3], end("7-1")]).end is None


def test_a_detached_answer_goes_on_from_all_that_was_said() -> None:
    entries = [mark("5-0", "start"), ev(5, 1, "a", "b"), mark("6-0", "lost")]
    answer = fold(entries)
    assert (answer.whole(), answer.waits) == (Said("ab"), True)
    more = [*entries, mark("7-0", "start", WHOLE_REPLY)]
    answer = fold(more)
    assert (answer.whole(), answer.waits, answer.dead) == (Said("ab"), False, False)
    again = [*more, ev(7, 1, "c"), mark("8-0", "lost"), mark("9-0", "start", WHOLE_REPLY), ev(9, 1, "d"), end("9-2")]
    answer = fold(again)
    assert (answer.whole(), answer.end) == (Said("abcd"), DONE)
    assert "".join(event.text for event in answer.all_events() if isinstance(event, Content)) == "abcd"


def test_thoughts_are_part_of_what_was_said() -> None:
    said = Said("ab", "hm")
    entries = [
        mark("5-0", "snap", encode_said(said)),
        mark("6-0", "start", fingerprint(said)),
        ev(6, 1, "c"),
        end("6-2"),
    ]
    answer = fold(entries)
    assert answer.whole() == Said("abc", "hm")
    assert answer.all_events() == [Reasoning("hm"), Content("ab"), Content("c")]
    assert answer.beyond(Said("", "h")) == [Reasoning("m"), Content("ab"), Content("c")]
    assert answer.beyond(Said("a", "hm")) == [Content("b"), Content("c")]
    assert answer.beyond(said) == [Content("c")]
    assert answer.beyond(Said("a", "h")) is None
    assert answer.beyond(Said("a")) is None


def test_marks_tell_how_many_tokens_their_text_took() -> None:
    at, fields = mark("5-3", "again", told("a b c "))
    answer = fold([(at, {**fields, b"s": b"3"}), mark("6-0", "start", base("a b c ")), ev(6, 1, "d ", "e ")])
    assert answer.heard().pieces == 5


def test_the_rest_beyond_what_is_known() -> None:
    events: list[Event] = [Origin("o"), Content("abc"), Usage(1, 2), Content("de"), Logprobs("[]"), Content("f")]
    assert beyond(events, Said()) == events[1:]
    assert beyond(events, Said("ab")) == [Content("c"), *events[2:]]
    assert beyond(events, Said("abcd")) == [Content("e"), Logprobs("[]"), Content("f")]
    assert beyond(events, Said("abcde")) == [Logprobs("[]"), Content("f")]
    assert beyond(events, Said("abcdef")) is None


def test_a_fingerprint_counts_characters() -> None:
    assert base("") == ""
    assert base("äö").startswith("2:")
    assert base("ab") != base("ba")
    assert fingerprint(Said("a", "b")) != fingerprint(Said("b", "a"))
