"""Whatever died while an answer was said: who reads it, live or in several visits, reads one unbroken text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.fold import fold
from buffer.heard import Said
from buffer.job import Event
from buffer.retold import Retold
from tests.buffer.entries import DONE, QUEUED, Entry, done, ev, mark, read, rest, snap, start, text

WORDS = st.lists(st.sampled_from(["a", "b", "ab", "c "]), min_size=1, max_size=5)


@st.composite
def histories(draw: st.DrawFn) -> list[Entry]:
    """An answer of several attempts, each from what the gateway had by then: at most what was said."""
    entries: list[Entry] = [QUEUED]
    said, fence = "", 10
    for attempt in range(draw(st.integers(1, 4))):
        if attempt:
            entries.append(mark(f"{fence + 5}-0", "lost"))
            said = said[: draw(st.integers(0, len(said)))]
            entries.append(snap(f"{fence + 7}-0", Said(said)))
            fence += 10
        entries.append(start(fence, Said(said)))
        words = draw(WORDS)
        place = 1
        while words:
            count = draw(st.integers(1, len(words)))
            entries.append(ev(fence, place, *words[:count]))
            place += count
            said += "".join(words[:count])
            words = words[count:]
    entries.append(done(fence, place))
    return entries


@settings(max_examples=300, deadline=None)
@given(histories())
def test_it_says_what_the_fold_says(entries: list[Entry]) -> None:
    found = read(entries)
    assert rest(found) == text(fold(entries).all_events())
    assert found.end == DONE


@settings(max_examples=300, deadline=None)
@given(histories(), st.data())
def test_a_reader_who_leaves_and_comes_back_reads_one_answer(entries: list[Entry], data: st.DataObject) -> None:
    """Live or later, in as many visits as it likes: an unbroken text, or the word that it was begun anew."""
    live = Retold()
    heard: list[tuple[str, Event]] = []
    for entry in entries:
        live.add(*entry)
        heard += live.take()
    assert live.end is not None
    if live.end == DONE:
        assert text(event for _, event in heard) == text(fold(entries).all_events())
    count = data.draw(st.integers(1, len(heard))) if heard else 0
    if not count or not heard[count - 1][0]:
        return
    back = read(entries, after=heard[count - 1][0])
    if live.end == DONE:
        assert list(back.had) == [tuple(one) for one in heard[:count]]
        assert [tuple(item) for item in back.take()] == [tuple(one) for one in heard[count:]]
