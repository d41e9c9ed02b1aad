from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backends.stops import StopScanner


def scan(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    scanner, text = StopScanner(stops), ""
    for piece in pieces:
        more, stopped = scanner.feed(piece)
        text += more
        if stopped:
            return text, True
    return text + scanner.flush(), False


def test_text_ends_before_the_first_stop() -> None:
    assert scan(["one END two STOP"], ["STOP", "END"]) == ("one ", True)
    assert scan(["one E", "N", "D two"], ["END"]) == ("one ", True)
    assert scan(["one EN"], ["END"]) == ("one EN", False)


def test_only_a_possible_beginning_waits() -> None:
    scanner = StopScanner(["END"])
    assert scanner.feed("x E") == ("x ", False)
    assert scanner.feed("x") == ("Ex", False)


@given(
    pieces=st.lists(st.text("ab\n", max_size=4), max_size=10),
    stops=st.lists(st.text("ab\n", min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_any_cut_ends_where_the_whole_text_would(pieces: list[str], stops: list[str]) -> None:
    text = "".join(pieces)
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    told, stopped = scan(pieces, stops)
    assert stopped == bool(ends)
    if not ends:
        assert told == text
    else:
        # A longer stop text that begins earlier may still be under way when a shorter one is complete.
        assert text.startswith(told)
        assert min(ends) <= len(told) <= max(ends)
