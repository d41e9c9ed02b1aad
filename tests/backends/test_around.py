"""Words that are read without their chunk: they are what they would be with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import chunk as chunks
from backends.chunk import Around, decode_chunk
from tests.backends.streams import NAMES, cuts, read, reader, recorded

WORDS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["content", "a", 'say "no"', "\\", "\n", "\u2028", "é", "😀", "other", "others", "mock", "data: ", ""]
    ),
)


def sse(words: str, *, ascii_only: bool = True, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": words}, "finish_reason": None}
    body = {"id": "a", **more, "model": "mock", "choices": [choice]}
    return b"data: %b\n\n" % json.dumps(body, ensure_ascii=ascii_only).encode(errors="replace")


def as_ever(data: list[bytes], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is read where every chunk is."""
    with monkeypatch.context() as patch:
        patch.setattr(chunks, "MOST_IN_VAIN", 0)
        return read(reader(), data)


@given(
    told=st.lists(st.tuples(WORDS, st.booleans(), st.sampled_from([{}, {}, {"created": 1}, {"usage": None}]))),
    places=st.lists(st.integers(0, 20_000), max_size=10),
)
def test_words_are_the_same(told: list[tuple[str, bool, dict[str, Any]]], places: list[int]) -> None:
    data = b"".join(sse(words, ascii_only=plain, **more) for words, plain, more in told) + b"data: [DONE]\n\n"
    with pytest.MonkeyPatch.context() as patch:
        expected = as_ever([data], patch)
    assert read(reader(), cuts(data, places)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_recorded_streams_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = recorded(name)
    expected = as_ever([data], monkeypatch)
    for size in (1, 100, 1000):
        assert read(reader(), [data[at : at + size] for at in range(0, len(data), size)]) == expected


def test_what_stands_around_is_read_once() -> None:
    calls = 0

    def counted(payload: bytes) -> chunks.Chunk | None:
        nonlocal calls
        calls += 1
        return decode_chunk(payload)

    around = Around(counted)
    around.learn(sse("a")[6:-2], "a")
    assert calls == 1
    later = sse("c", created=5)
    assert around.all(sse("b")) == ["b"]
    assert around.all(sse('"\n"')) == ['"\n"']
    assert around.all(later) == around.all(sse("b") + b":") == []
    assert around.begin([sse(" d")[6:-2], sse("e")[6:-2], later[6:-2], sse("f")[6:-2]]) == [" d", "e"]
    assert calls == 1


def test_engines_that_tell_the_time_in_each_chunk_are_soon_left_alone() -> None:
    calls = 0

    def counted(payload: bytes) -> chunks.Chunk | None:
        nonlocal calls
        calls += 1
        return decode_chunk(payload)

    around = Around(counted)
    for at in range(20):
        payload = sse("a", created=at)[6:-2]
        assert around.begin([payload]) == []
        around.learn(payload, "a")
    assert calls == chunks.MOST_IN_VAIN


@pytest.mark.parametrize(
    "broken", [b'"a","b"', b"null", b"1", b'"a\tb"', b'"\\ud800"', b'"\xff"', b'"a', b'"a"}, {"delta": "b"', b"", b'""']
)
def test_only_one_text_may_stand_there(broken: bytes) -> None:
    around = Around(decode_chunk)
    one = sse("zwq")
    other = one.replace(b'"zwq"', broken)
    around.learn(one[6:-2], "zwq")
    assert around.all(other) == []
    assert around.all(one) == ["zwq"]
    around.learn(one[6:-2], "zwq")
    assert around.begin([other[6:-2]]) == []
    assert around.begin([one[6:-2]]) == []


@given(st.lists(WORDS.filter(bool), min_size=1, max_size=6))
def test_several_at_once_are_what_they_are_one_by_one(words: list[str]) -> None:
    around = Around(decode_chunk)
    around.learn(sse("zwq")[6:-2], "zwq")
    told = [sse(text) for text in words]
    assert around.all(b"".join(told)) == words


def test_several_of_which_one_is_odd_are_none() -> None:
    around = Around(decode_chunk)
    around.learn(sse("zwq")[6:-2], "zwq")
    for odd in (sse(""), sse("a").replace(b'"a"', b'"a","b"'), sse("a", id="b"), b": a comment\n\n"):
        assert around.all(sse("a") + odd + sse("b")) == []
    assert around.all(sse("a") + sse("b")) == ["a", "b"]
