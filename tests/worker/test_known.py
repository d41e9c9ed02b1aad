"""What a worker knows of others' back ends, whatever becomes of the store that told it."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.load import BackendState
from worker.known import MOST_PASSED_S, STATE_TTL_S, Known


def state(name: str, told_at: float = 0.0) -> BackendState:
    return BackendState(name=name, kind="vllm", up=True, probed_at=told_at)


def names(states: Sequence[BackendState]) -> list[str]:
    return [one.name for one in states]


def test_what_the_store_has_lost_is_known_as_long_as_it_would_have_told_of_it() -> None:
    known = Known()
    assert names(known.hear([state("b"), state("a")], 100.0)) == ["a", "b"]
    for passed_s in (0.1, 5.0, 10.0, 14.9):
        assert names(known.hear([state("b", passed_s)], 100.0 + passed_s)) == ["a", "b"]
    assert names(known.hear([state("b", 15.0)], 100.0 + STATE_TTL_S)) == ["b"]
    assert names(known.hear([state("a", 16.0)], 116.0)) == ["a", "b"]


def test_what_is_told_is_known_however_old_it_is() -> None:
    known, old = Known(), state("a")
    for at in range(0, 60, 5):
        assert known.hear([old], at) == [old]
    assert known.hear([], 60) == []


def test_newer_word_takes_the_place_of_older() -> None:
    known = Known()
    known.hear([state("a", 1.0)], 0.0)
    assert known.hear([state("a", 2.0)], 5.0) == [state("a", 2.0)]
    known.hear([], 10.0)
    assert known.hear([], 15.0) == [state("a", 2.0)], "told at 5"
    assert known.hear([], 20.0) == []


def test_an_outage_of_the_store_makes_nothing_older() -> None:
    known = Known()
    known.hear([state("a")], 0.0)
    assert names(known.hear([], 1_000.0)) == ["a"], f"{MOST_PASSED_S} s at most have passed"
    assert names(known.hear([], 1_005.0)) == ["a"]
    assert known.hear([], 1_010.0) == []
