"""Which answers may be kept, and in how many pieces they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.cached import MOST_BYTES, Recording, decode_cached
from buffer.job import Content, End, Event, Failure, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage

DONE = End("done")
PLAIN: list[Event] = [Origin("fp"), Content("Hel"), Content("lo"), Finish("stop"), Usage(7, 2, 3, None, 5, 6, 7)]


def kept(events: list[Event], *, n: int = 1, end: End = DONE) -> list[Event] | None:
    recording = Recording(n)
    for event in events:
        recording.add([event])
    data = recording.kept(end, "fast")
    return decode_cached(data).events if data else None


def test_a_plain_answer_is_kept_without_the_engine_s_clock() -> None:
    assert kept(PLAIN) == [Origin("fp"), Content("Hello"), Finish("stop"), Usage(7, 2, 3)]


@pytest.mark.parametrize(
    "events",
    [
        [Reasoning("hm"), *PLAIN],
        [*PLAIN, Reasoning("hm")],
        [ToolDelta(0, "c", "f"), *PLAIN],
        [Content("Hel"), Finish("length"), Usage(7, 2)],
        [Content("Hel"), Finish("tool_calls")],
        [Content("Hel"), Finish("content_filter")],
        [Content("Hel"), Usage(7, 2)],
        [Finish("stop"), Usage(7, 0)],
        [Content(""), Finish("stop")],
        [Content("Hello"), Finish("stop"), Usage(7, 9, None, 7)],
        [Content("x" * (MOST_BYTES + 1)), Finish("stop")],
        [Content("x"), Finish("stop"), Content("y", 1)],
        [Content("x"), Content("y", 1), Finish("stop", 1)],
    ],
)
def test_others_are_not(events: list[Event]) -> None:
    assert kept(events, n=2 if any(getattr(event, "index", 0) for event in events) else 1) is None


@pytest.mark.parametrize(
    "end",
    [End("failed", Failure("no")), End("cancelled"), End("expired")],
)
def test_nor_one_that_has_failed(end: End) -> None:
    assert kept(PLAIN, end=end) is None


EVENTS = st.lists(
    st.one_of(
        st.builds(Content, st.text(max_size=40), st.integers(0, 1)),
        st.builds(Logprobs, st.just("[]"), st.integers(0, 1)),
    ),
    max_size=80,
)


@given(EVENTS)
def test_the_same_words_in_fewer_pieces(said: list[Event]) -> None:
    events: list[Event] = [Content("a"), Content("b", 1), *said, Finish("stop"), Finish("stop", 1), Usage(1, 2)]
    found = kept(events, n=2)
    assert found is not None
    for index in (0, 1):
        assert words(found, index) == words(events, index)
    assert len(found) <= len(events)
    texts = [event.text for event in found if isinstance(event, Content) and event.index == 0]
    if sum(map(len, texts)) > 200 and not any(isinstance(event, Logprobs) or event.index for event in said):  # type: ignore[union-attr]
        assert 2 <= len(texts) <= 40
    assert [event for event in found if isinstance(event, Logprobs)] == [e for e in events if isinstance(e, Logprobs)]


def words(events: list[Event], index: int) -> str:
    return "".join(event.text for event in events if isinstance(event, Content) and event.index == index)
