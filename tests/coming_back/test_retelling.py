"""Any answer, told in any dialect, broken off behind any event: the rest is exactly what was missing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.job import (
    Chat,
    Content,
    End,
    Event,
    Failure,
    Finish,
    Logprobs,
    Origin,
    Reasoning,
    ToolDelta,
    Usage,
)
from buffer.retold import Item
from gateway.refusal import Refusal
from gateway.requests import Retelling, read_place
from gateway.told import Told
from tests.coming_back.rig import BODIES, events

ENDS = [End("done"), End("failed", Failure("It broke.", 502)), End("cancelled")]
_INSTANTS = re.compile(r'"(created_at|total_duration|eval_duration|prompt_eval_duration|completed_at)":("[^"]*"|\d+)')


def told(path: str, events_of: list[Event], end: End, *, after: str = "") -> list[tuple[str, str]]:
    """Ids and data of the events that a reader gets from behind ``after``."""
    chat = Chat("m", [], logprobs=True, include_usage=True)
    (place,), skipped = read_place(after, 1)
    retelling = Retelling(Told(path, chat, 1.0), "f" * 32, [place], skipped)
    items = [Item(f"10-{number}", event) for number, event in enumerate(events_of, 1)]
    end_id = f"10-{len(items) + 1}"
    had = 0 if not place else len(items) if place == end_id else int(place.partition("-")[2])
    retelling.had(0, items[:had])
    data = b"".join(retelling.feed(0, item) for item in items[had:])
    if place != end_id:
        data += retelling.end(end, [end_id], queued_s=0.5)
    return [(event.id, _INSTANTS.sub("", event.name + event.data)) for event in events(data.decode())]


texts = st.text(alphabet="ab \n", max_size=4)
pieces = st.one_of(
    texts.map(Content),
    texts.map(Reasoning),
    st.builds(ToolDelta, st.integers(0, 1), st.just("c"), st.just("f"), st.sampled_from(["", "{}", '{"a":1}'])),
    st.just(Logprobs('[{"token":"a"}]')),
    st.just(Origin("fp")),
)
answers = st.builds(
    lambda body, ended: [*body, *ended],
    st.lists(pieces, max_size=6),
    st.sampled_from([[], [Finish("stop")], [Finish("tool_calls"), Usage(3, 4)], [Finish("length"), Usage(3, 4)]]),
)


@pytest.mark.parametrize("path", BODIES)
@settings(max_examples=60, deadline=None)
@given(answers, st.sampled_from(ENDS))
def test_it_goes_on_from_behind_any_event(path: str, answer: list[Event], end: End) -> None:
    whole = told(path, answer, end)
    ids = [id for id, _ in whole]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert ids[-1] == f"10-{len(answer) + 1}"
    for count, id in enumerate(ids, 1):
        assert told(path, answer, end, after=id) == whole[count:]


@pytest.mark.parametrize("given_id", ["10-2", " 10-2 ", "10-2.3", "0-0", "0-0.1", ""])
def test_places_that_are_read(given_id: str) -> None:
    (place,), skipped = read_place(given_id, 1)
    assert place == ("10-2" if "10-2" in given_id else "")
    assert skipped == int(given_id.strip().partition(".")[2] or 0)


def test_places_of_several_answers() -> None:
    assert read_place("10-2,0-0.4", 2) == (["10-2", ""], 4)
    with pytest.raises(Refusal):
        read_place("10-2", 2)
